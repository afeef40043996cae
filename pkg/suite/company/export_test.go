package company

import (
	"maps"
	"slices"
	"testing"
)

// SharedWorld gives the tests of the outer package the world that the inner ones use.
func SharedWorld(t *testing.T) *World { return sharedWorld(t) }

// DefaultWorld gives them the world of the default options and the folder it is written to.
func DefaultWorld(t *testing.T) (*World, string) { return defaultWorld(t) }

// Noise reports whether a passage names an entity and states no fact.
func Noise(passage string) bool { return matched(noises, passage) != nil }

var noises = patterns(slices.Concat(docNoise, webNoise))

// Few are the numbers of tasks of the shared world.
func Few() map[string]int { return maps.Clone(few) }
