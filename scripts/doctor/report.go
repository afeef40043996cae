package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/plugin"
)

// speed describes each backend in words. The ratios were measured with the tiny model, against XLA on a CPU.
var speed = map[string]string{
	plugin.CUDA: "XLA on an NVIDIA GPU",
	plugin.CPU:  "XLA on the CPU",
	plugin.Go:   "GoMLX's Go backend: about 10 times slower at training than XLA on the CPU, 5 times at generating; for tests and the smoke profile; make repro takes the committed checkpoints then instead of training",
}

// report is the text for a terminal.
func (s *findings) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "System\n  %s/%s, %d CPUs", s.System.OS, s.System.Arch, s.System.CPUs)
	for _, v := range []string{s.System.CPU, s.System.Memory} {
		if v != "" {
			fmt.Fprintf(&b, ", %s", v)
		}
	}
	if s.System.NVIDIA != "" {
		fmt.Fprintf(&b, "\n  NVIDIA driver: %s", s.System.NVIDIA)
	} else {
		fmt.Fprint(&b, "\n  no NVIDIA driver")
	}
	fmt.Fprint(&b, "\n\nTools\n")
	for _, t := range s.Tools {
		mark, detail := "yes", t.Detail
		if !t.Found {
			mark, detail = "no ", fmt.Sprintf("%s (%s)", t.Detail, t.Need)
		}
		fmt.Fprintf(&b, "  %s  %-10s  %s\n", mark, t.Name, detail)
	}
	fmt.Fprint(&b, "\nXLA plugins\n")
	if len(s.Plugins) == 0 {
		fmt.Fprintf(&b, "  none found; looked in %s, the project's .local/xla-cpu and .local/xla-cuda, and the system's library folders\n", plugin.PathVar)
	}
	for _, l := range s.Plugins {
		fmt.Fprintf(&b, "  %s  %s\n    from %s, %d MB\n", l.Kind, l.Path, l.Source, (l.Bytes+5e5)/1e6)
		if l.API != "" {
			fmt.Fprintf(&b, "    PJRT API %s", l.API)
			for _, name := range slices.Sorted(maps.Keys(l.Versions)) {
				fmt.Fprintf(&b, ", %s %s", name, l.Versions[name])
			}
			fmt.Fprintln(&b)
		}
		if l.Error != "" {
			fmt.Fprintf(&b, "    CANNOT BE USED: %s\n", l.Error)
			continue
		}
		fmt.Fprintf(&b, "    platform %s (%s), %d devices: %s\n", l.Platform, l.Release, len(l.Devices), strings.Join(l.Devices, ", "))
	}
	fmt.Fprint(&b, "\nBackend\n")
	if s.Backend.Kind == "" {
		fmt.Fprintf(&b, "  none: models cannot run, the commands will stop with: %s\n", s.Backend.Error)
	} else {
		fmt.Fprintf(&b, "  %s will be used: %s\n  because %s\n", s.Backend.Kind, speed[s.Backend.Kind], s.Backend.Why)
	}
	fmt.Fprintf(&b, "  faster: %s\n", s.Backend.Faster)
	if !s.has("cgo") || !s.has("C compiler") {
		fmt.Fprint(&b, "\nThe project does not build without cgo: the SQL tool uses SQLite, which is C.\n")
	}
	return b.String()
}
