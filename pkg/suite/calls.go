package suite

// Seen is one call of an episode and what came back, as a suite's rules for scripted baselines get it.
type Seen struct {
	Tool   string
	Body   string
	Failed bool
}
