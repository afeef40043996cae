package stage

// What tests of exhibits, which lie outside of the package, need of its tests.
var (
	Leave = leave
	Small = small
)

const Bounds = bounds
