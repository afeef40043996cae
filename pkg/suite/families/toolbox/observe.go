package toolbox

import (
	"strings"

	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/tool"
)

// text builds an observation of parts that state facts and of words that do not.
type text struct {
	b     strings.Builder
	reads []source.Read
}

func (t *text) say(words string) *text { t.b.WriteString(words); return t }

// state adds a value and the fact that it states.
func (t *text) state(value, fact string) *text {
	start := t.b.Len()
	t.b.WriteString(value)
	t.reads = append(t.reads, source.Read{Start: start, End: t.b.Len(), From: []string{fact}})
	return t
}

// next separates the items of a list.
func (t *text) next() *text {
	if t.b.Len() > 0 {
		t.b.WriteString("; ")
	}
	return t
}

func (t *text) done() (tool.Observation, error) {
	return tool.Observation{Text: t.b.String(), Reads: t.reads}, nil
}

// stated is an observation that is one value.
func stated(value, fact string) (tool.Observation, error) { return new(text).state(value, fact).done() }

// named is an observation of one value after the name of what it is of, as the items of a list are. A policy that made several calls finds each
// value beside its name.
func named(name, value, fact, unit string) (tool.Observation, error) {
	return new(text).say(name+" ").state(value, fact).say(unit).done()
}

// failed is the observation of a call that failed with err.
func failed(err error) (tool.Observation, error) { return tool.Observation{}, err }
