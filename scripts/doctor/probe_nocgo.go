//go:build !cgo

package main

// openPlugin cannot load anything: this build has no C bindings.
func openPlugin(string) answer {
	return answer{Error: "not opened: Go works without cgo here, and a plugin is a C library"}
}
