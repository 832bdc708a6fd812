package main

import (
	"context"
	"net/url"
	"sync"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

var faults = map[string]simulator.FaultType{
	"NoPermission":     simulator.FaultTypeNoPermission,
	"NotAuthenticated": simulator.FaultTypeNotAuthenticated,
	"System":           simulator.FaultTypeGeneric,
}

func ruleOf(given order) *simulator.FaultInjectionRule {
	return &simulator.FaultInjectionRule{
		MethodName: given.Method, ObjectType: "*", ObjectName: "*", Probability: 1,
		FaultType: faults[given.Fault], Message: given.Fault, MaxCount: given.Count, Enabled: true,
	}
}

// forget ends every session, as a vCenter does after a time or when it is started anew.
func forget(server *url.URL) {
	ctx := context.Background()
	client, err := govmomi.NewClient(ctx, server, true)
	must(err)
	defer client.Logout(ctx)
	own, err := client.SessionManager.UserSession(ctx)
	must(err)
	var manager mo.SessionManager
	must(client.RetrieveOne(ctx, *client.ServiceContent.SessionManager, []string{"sessionList"}, &manager))
	for _, session := range manager.SessionList {
		if session.Key != own.Key {
			must(client.SessionManager.TerminateSession(ctx, []string{session.Key}))
		}
	}
}

// rights stand in place of the simulator's, in which everybody may do everything.
type rights struct {
	*simulator.AuthorizationManager
	mutex  sync.Mutex
	denied map[string]bool
}

func newRights(model *simulator.Model) *rights {
	content := model.ServiceContent
	found := model.Map().Get(*content.AuthorizationManager).(*simulator.AuthorizationManager)
	made := &rights{AuthorizationManager: found}
	model.Map().Put(made)
	return made
}

func (r *rights) deny(privileges []string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.denied = map[string]bool{}
	for _, privilege := range privileges {
		r.denied[privilege] = true
	}
}

func (r *rights) HasPrivilegeOnEntities(request *types.HasPrivilegeOnEntities) soap.HasFault {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var told []types.EntityPrivilege
	for _, entity := range request.Entity {
		one := types.EntityPrivilege{Entity: entity}
		for _, privilege := range request.PrivId {
			granted := types.PrivilegeAvailability{PrivId: privilege, IsGranted: !r.denied[privilege]}
			one.PrivAvailability = append(one.PrivAvailability, granted)
		}
		told = append(told, one)
	}
	return &methods.HasPrivilegeOnEntitiesBody{Res: &types.HasPrivilegeOnEntitiesResponse{Returnval: told}}
}
