// A vCenter, or a host of ESXi, for tests: govmomi's simulator on a loopback port.
//
// The first line of its input says, as JSON, which machines there are. It answers with a line that says where it is
// and which certificate it shows. Each further line is an order, answered with the machines as they are then. It ends
// when its input does.
package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"

	"github.com/vmware/govmomi/simulator"
)

type setup struct {
	Kind     string // "vcenter" or "esxi"
	User     string
	Password string
	Machines []machine
	Clones   string // the address that clones get
}

type order struct {
	Fault   string   // with this one fails ...
	Method  string   // ... this method of the API ...
	Count   int      // ... so many times; 0 for always
	Deny    []string // privileges that nobody has
	Forget  bool     // every login
	Recover bool     // from all faults
	Change  *machine // somebody gives the machine of this name other CPUs, memory or power
}

func main() {
	log.SetOutput(io.Discard)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return
	}
	var wanted setup
	must(json.Unmarshal(lines.Bytes(), &wanted))
	model := modelOf(wanted)
	must(model.Create())
	defer model.Remove()

	certificate, shown := newCertificate()
	model.Service.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	model.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword(wanted.User, wanted.Password)}
	guests := newGuests(model, wanted)
	rights := newRights(model)
	server := model.Service.NewServer()
	defer server.Close()
	guests.begin()
	tell(map[string]string{"address": server.URL.Host, "certificate": shown})

	for lines.Scan() {
		var given order
		must(json.Unmarshal(lines.Bytes(), &given))
		obey(model, server.URL, rights, given)
		if given.Change != nil {
			guests.change(*given.Change)
		}
		tell(guests.all())
	}
}

func modelOf(wanted setup) *simulator.Model {
	model := simulator.VPX()
	if wanted.Kind == "esxi" {
		model = simulator.ESX()
	}
	model.Cluster, model.Portgroup, model.Autostart = 0, 0, false
	model.Host, model.Machine = 1, len(wanted.Machines)
	return model
}

func obey(model *simulator.Model, server *url.URL, rights *rights, given order) {
	if given.Recover {
		model.Service.ClearFaultRules()
	}
	if given.Method != "" {
		model.Service.AddFaultRule(ruleOf(given))
	}
	if given.Forget {
		forget(server)
	}
	if given.Deny != nil {
		rights.deny(given.Deny)
	}
}

func tell(what any) {
	line, err := json.Marshal(what)
	must(err)
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
