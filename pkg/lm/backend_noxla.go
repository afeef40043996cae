//go:build !cgo || noxla

package lm

// systemPlugins finds nothing: this build has no XLA bindings (cgo is off, or the noxla tag is set).
func systemPlugins(string) []string { return nil }
