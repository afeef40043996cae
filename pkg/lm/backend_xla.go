//go:build cgo && !noxla

package lm

import "github.com/gomlx/go-xla/compute/xla"

// Plugins are installed by an explicit command, never as a side effect of opening a backend.
func init() { xla.EnableAutoInstall(false) }
