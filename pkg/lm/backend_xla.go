//go:build cgo && !noxla

package lm

import (
	"slices"
	"strings"

	"github.com/gomlx/go-xla/compute/xla"
	"github.com/gomlx/go-xla/pjrt"
)

// Plugins are installed by an explicit command, never as a side effect of opening a backend.
func init() { xla.EnableAutoInstall(false) }

// systemPlugins lists plugins of one kind in the default locations of the XLA bindings.
func systemPlugins(kind string) []string {
	want := strings.TrimPrefix(kind, "xla:")
	var out []string
	_ = Catch("search plugins", func() error { // a broken library in a system folder must not stop the search
		for name, path := range pjrt.AvailablePlugins() {
			if strings.HasPrefix(name, want) {
				out = append(out, path)
			}
		}
		return nil
	})
	slices.Sort(out)
	return out
}
