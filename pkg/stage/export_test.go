package stage

// The tests of exhibits lie outside of the package. They use these functions of its tests.
var (
	Leave = leave
	Small = small
)

const Bounds = bounds
