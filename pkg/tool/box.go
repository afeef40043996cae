package tool

// Box is the registry of the tools one episode may call, in prompt order, each at the price offered to that episode.
type Box struct {
	order []string
	tools map[string]Tool
	specs map[string]Spec
	close []func() error
}
