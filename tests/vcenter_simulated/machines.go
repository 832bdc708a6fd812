package main

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// A machine as a test wants to find it.
type machine struct {
	Name     string
	Cpus     int32
	Memory   int32 // MiB
	Nics     []string
	Running  bool
	Template bool
	Address  string   // that its tools tell while it runs; "" for one whose tools stay silent
	Tools    bool     // installed
	Mark     string   // who has borrowed it; only told
	Places   []string // of its cards: network and address; only told
}

const bootTime = 300 * time.Millisecond

// guests tell their addresses a while after they are started, and forget them when they are stopped, as VMware Tools do.
type guests struct {
	model  *simulator.Model
	wanted setup
}

func newGuests(model *simulator.Model, wanted setup) *guests {
	made := model.Map().All("VirtualMachine")
	for index, want := range wanted.Machines {
		shape(made[index].(*simulator.VirtualMachine), want)
	}
	return &guests{model, wanted}
}

// shape gives a machine of the simulator's the looks that are wanted.
func shape(vm *simulator.VirtualMachine, want machine) {
	vm.Name, vm.Config.Name, vm.Summary.Config.Name = want.Name, want.Name, want.Name
	vm.Config.Hardware.NumCPU, vm.Summary.Config.NumCpu = want.Cpus, want.Cpus
	vm.Config.Hardware.MemoryMB, vm.Summary.Config.MemorySizeMB = want.Memory, want.Memory
	devices := object.VirtualDeviceList(vm.Config.Hardware.Device)
	found := devices.SelectByType((*types.VirtualEthernetCard)(nil))[0]
	card := *found.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
	kept := devices[:0]
	for _, device := range devices {
		if device != found {
			kept = append(kept, device)
		}
	}
	for index, nic := range want.Nics {
		another := card
		another.Key += int32(index)
		unit := int32(7 + index)
		another.UnitNumber = &unit
		another.MacAddress = card.MacAddress[:15] + string("0123456789"[index]) + "f"
		switch nic {
		case "vmxnet3":
			kept = append(kept, &types.VirtualVmxnet3{VirtualVmxnet: types.VirtualVmxnet{VirtualEthernetCard: another}})
		case "e1000e":
			kept = append(kept, &types.VirtualE1000e{VirtualEthernetCard: another})
		default:
			kept = append(kept, &types.VirtualE1000{VirtualEthernetCard: another})
		}
	}
	vm.Config.Hardware.Device = kept
	if want.Tools {
		vm.Guest.ToolsStatus = types.VirtualMachineToolsStatusToolsNotRunning
	}
	if want.Template {
		vm.Config.Template, vm.Summary.Config.Template, vm.ResourcePool = true, true, nil
	}
	if want.Running {
		vm.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOn
		vm.Summary.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOn
	}
}

func (g *guests) begin() {
	g.model.Map().AddHandler(g)
	for _, made := range g.model.Map().All("VirtualMachine") {
		vm := made.(*simulator.VirtualMachine)
		if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
			g.tell(vm)
		}
	}
}

// Reference makes a handler of it; there is one.
func (g *guests) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Guests", Value: "guests"}
}

func (g *guests) PutObject(*simulator.Context, mo.Reference)                    {}
func (g *guests) RemoveObject(*simulator.Context, types.ManagedObjectReference) {}

func (g *guests) UpdateObject(_ *simulator.Context, updated mo.Reference, changes []types.PropertyChange) {
	vm, isMachine := g.model.Map().Get(updated.Reference()).(*simulator.VirtualMachine)
	if !isMachine {
		return
	}
	for _, change := range changes {
		if change.Name == "runtime.powerState" {
			// Whoever updates holds the machine's lock.
			go g.tell(vm)
		}
	}
}

// tell sets what the tools of a machine say, a while after it was started.
func (g *guests) tell(vm *simulator.VirtualMachine) {
	time.Sleep(bootTime)
	own := g.context()
	own.WithLock(vm, func() {
		address, running := "", types.VirtualMachineToolsRunningStatusGuestToolsNotRunning
		if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
			address = g.addressOf(vm.Name)
		}
		if address != "" {
			running = types.VirtualMachineToolsRunningStatusGuestToolsRunning
		}
		own.Update(vm, []types.PropertyChange{
			{Name: "guest.toolsRunningStatus", Val: string(running)},
			{Name: "guest.ipAddress", Val: address},
			{Name: "summary.guest.ipAddress", Val: address},
		})
	})
}

func (g *guests) addressOf(name string) string {
	for _, want := range g.wanted.Machines {
		if want.Name == name {
			return want.Address
		}
	}
	return g.wanted.Clones
}

// change is what somebody else does to a machine.
func (g *guests) change(want machine) {
	for _, made := range g.model.Map().All("VirtualMachine") {
		vm := made.(*simulator.VirtualMachine)
		if vm.Name != want.Name {
			continue
		}
		own := g.context()
		own.WithLock(vm, func() {
			power := types.VirtualMachinePowerStatePoweredOff
			if want.Running {
				power = types.VirtualMachinePowerStatePoweredOn
			}
			own.Update(vm, []types.PropertyChange{
				{Name: "config.hardware.numCPU", Val: want.Cpus},
				{Name: "config.hardware.memoryMB", Val: want.Memory},
				{Name: "runtime.powerState", Val: power},
			})
		})
	}
}

func (g *guests) context() *simulator.Context {
	ctx := g.model.Service.Context
	return &simulator.Context{Context: ctx.Context, Session: ctx.Session, Map: ctx.Map}
}

// all machines, as they are.
func (g *guests) all() []machine {
	told := []machine{}
	for _, made := range g.model.Map().All("VirtualMachine") {
		vm := made.(*simulator.VirtualMachine)
		g.context().WithLock(vm, func() { told = append(told, looksOf(vm)) })
	}
	return told
}

func looksOf(vm *simulator.VirtualMachine) machine {
	looks := machine{
		Name:     vm.Name,
		Cpus:     vm.Config.Hardware.NumCPU,
		Memory:   vm.Config.Hardware.MemoryMB,
		Running:  vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn,
		Template: vm.Config.Template,
		Address:  vm.Guest.IpAddress,
		Tools:    vm.Guest.ToolsStatus != types.VirtualMachineToolsStatusToolsNotInstalled,
		Nics:     []string{},
	}
	for _, option := range vm.Config.ExtraConfig {
		if value := option.GetOptionValue(); value.Key == "nearmetal.borrowed" {
			looks.Mark = fmt.Sprint(value.Value)
		}
	}
	devices := object.VirtualDeviceList(vm.Config.Hardware.Device)
	for _, device := range devices.SelectByType((*types.VirtualEthernetCard)(nil)) {
		card := device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
		looks.Nics = append(looks.Nics, strings.ToLower(strings.TrimPrefix(reflect.TypeOf(device).Elem().Name(), "Virtual")))
		network := card.Backing.(*types.VirtualEthernetCardNetworkBackingInfo).DeviceName
		looks.Places = append(looks.Places, network+" "+card.MacAddress)
	}
	return looks
}
