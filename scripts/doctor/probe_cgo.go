//go:build cgo

package main

import (
	"fmt"
	"strings"

	"github.com/gomlx/gopjrt/pjrt"
)

// openPlugin loads a plugin into this process and asks it for its versions and devices.
func openPlugin(path string) (a answer) {
	defer func() {
		if r := recover(); r != nil { // the binding panics on some malformed libraries
			a = answer{Error: fmt.Sprint(r)}
		}
	}()
	p, err := pjrt.GetPlugin(path)
	if err != nil {
		return answer{Error: oneLine(err)}
	}
	major, minor := p.Version()
	a = answer{API: fmt.Sprintf("%d.%d", major, minor), Versions: map[string]string{}}
	for name, value := range p.Attributes() {
		v := fmt.Sprint(value)
		if list, ok := value.([]int64); ok {
			v = strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ".")
		}
		a.Versions[name] = v
	}
	client, err := p.NewClient(nil)
	if err != nil {
		a.Error = oneLine(err)
		return a
	}
	a.Platform, a.Release = client.Platform(), client.PlatformVersion()
	for i, d := range client.AddressableDevices() {
		name := fmt.Sprintf("device %d", i)
		if about, err := d.GetDescription(); err == nil {
			name = about.DebugString()
		}
		a.Devices = append(a.Devices, name)
	}
	return a
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
