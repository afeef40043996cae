// Package suites lists the suites. A new one is a package below pkg/suite and one line here.
package suites

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/chain"
	"github.com/toolroute/toolroute/pkg/suite/company"
	"github.com/toolroute/toolroute/pkg/suite/families"
)

// All lists the suites. A program that is told no suite takes the first.
var All = []suite.Definition{
	company.Definition(),
	families.Definition(),
	chain.Definition(),
}

// Names are the names of All, in order.
func Names() []string {
	var out []string
	for _, d := range All {
		out = append(out, d.Name)
	}
	return out
}

// Find returns a suite by its name, or an error that lists those there are.
func Find(name string) (suite.Definition, error) {
	if i := slices.Index(Names(), name); i >= 0 {
		return All[i], nil
	}
	return suite.Definition{}, fmt.Errorf("no suite is named %q; the suites are %s", name, strings.Join(Names(), ", "))
}
