package company

import "testing"

// SharedWorld gives the tests of the outer package the world that the inner ones use.
func SharedWorld(t *testing.T) *World { return sharedWorld(t) }
