package train

import "fmt"

// Rollout is one episode as a row of tokens. Its ids are those that the sampler read and sampled: text is never encoded again,
// because that could give other ids.
type Rollout struct {
	ID string
	// Group is the same for the rollouts whose rewards were compared with each other.
	Group string
	IDs   []int32
	// Mask is 1 where the policy sampled the token, 0 in prompt and observations.
	Mask []uint8
	// LogProbs are the sampler's log-probabilities of the sampled tokens, in nats, at the temperature of the loss; 0 elsewhere.
	LogProbs []float32
	// Advantage applies to all sampled tokens; see [Advantages].
	Advantage float64
	// Truncated marks an episode that a limit ended.
	Truncated bool
}

// Check reports lengths that disagree and numbers that are not finite.
func (r Rollout) Check() error {
	if err := checkRow("rollout", r.ID, r.IDs, r.Mask); err != nil {
		return err
	}
	if len(r.LogProbs) != len(r.IDs) {
		return fmt.Errorf("rollout %q: %d ids but %d log-probabilities: they must be of one length", r.ID, len(r.IDs), len(r.LogProbs))
	}
	if r.Mask[0] != 0 {
		return fmt.Errorf("rollout %q: mask[0] is 1, but the first token has nothing to be sampled from", r.ID)
	}
	if !finite(r.Advantage) {
		return fmt.Errorf("rollout %q: advantage is %v", r.ID, r.Advantage)
	}
	for i, lp := range r.LogProbs {
		if r.Mask[i] == 1 && (!finite(float64(lp)) || lp > 1e-3) {
			return fmt.Errorf("rollout %q: the log-probability of sampled token %d is %v", r.ID, i, lp)
		}
	}
	return nil
}
