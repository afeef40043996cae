// Package configs embeds the settings files: default.yaml holds every numeric knob, suite-*.yaml what a suite changes,
// profile-*.yaml what a profile changes, and profile-*-SUITE.yaml what it changes for one suite.
package configs

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Read returns one file, without the ending; a missing one is fs.ErrNotExist.
func Read(name string) ([]byte, error) { return files.ReadFile(name + ".yaml") }

// Names lists what stands behind a prefix: Names("profile-") gives "default", "full", ...
func Names(prefix string) []string {
	var out []string
	entries, _ := fs.ReadDir(files, ".")
	for _, e := range entries {
		name, isYAML := strings.CutSuffix(e.Name(), ".yaml")
		if rest, ok := strings.CutPrefix(name, prefix); ok && isYAML && !strings.Contains(rest, "-") {
			out = append(out, rest)
		}
	}
	return out
}
