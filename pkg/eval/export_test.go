package eval

// ExactCount lets tests of tables compare with the interval of Clopper and Pearson.
var ExactCount = exactCount
