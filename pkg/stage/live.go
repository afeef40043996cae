package stage

import (
	"os"
	"time"

	"github.com/toolroute/toolroute/pkg/report"
)

// liveEvery is how often the curves of a running training are drawn again.
const liveEvery = 5 * time.Second

// liveCurve shows the metrics of a policy in training while they grow, where Options.Curve asks for that. Nothing of it is stored, so
// the clock decides nothing but when a picture is drawn.
type liveCurve struct {
	env  *Env
	name string
	seed uint64
	last time.Time
}

// curveOf is the curve of a recipe that begins to train.
func (e *Env) curveOf(name string, seed uint64) *liveCurve {
	return &liveCurve{env: e, name: name, seed: seed, last: time.Now()}
}

// grown says that a step was logged. What cannot be read now is shown the next time: a picture is no reason to end a training.
func (c *liveCurve) grown(done bool) {
	show := c.env.Options.Curve
	if show == nil || !done && time.Since(c.last) < liveEvery {
		return
	}
	c.last = time.Now()
	b, err := os.ReadFile(c.env.Run.Path(c.env.folder(c.seed, c.name), metricsFile))
	if err != nil {
		return
	}
	if records, err := report.ReadMetrics(b); err == nil && len(records) > 0 {
		show(report.TrainingRun{Name: c.name, Records: records})
	}
}
