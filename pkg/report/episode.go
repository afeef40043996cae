package report

import "github.com/toolroute/toolroute/pkg/trajectory"

// Episode returns one episode as markdown: the question, what Diagnose finds, the turns with their costs.
func Episode(t *trajectory.Trajectory) string { return string(markdownOf(t)) }

// PNG draws a picture.
func (p Picture) PNG() ([]byte, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	return p.figure().png()
}

// ProfilePNG draws the rewards, the gate's figures and the groups of each policy.
func ProfilePNG(profiles []Profile) ([]byte, error) { return profileFigure(profiles).png() }

// TrainingPNGs draws the training pictures that the runs have data for, in their order.
func TrainingPNGs(runs []TrainingRun) (names []string, pngs [][]byte, err error) {
	for _, f := range trainingFigures(runs) {
		b, err := f.png()
		if err != nil {
			return nil, nil, err
		}
		names, pngs = append(names, f.name), append(pngs, b)
	}
	return names, pngs, nil
}
