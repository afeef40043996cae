package stage

import (
	"os"
	"time"

	"github.com/toolroute/toolroute/pkg/report"
)

// liveEvery is how often the curves of a running training are drawn again.
const liveEvery = 5 * time.Second

// liveCurve hands the metrics of a running training to Options.Curve from time to time. Nothing of it is stored: the clock decides only when a
// picture is drawn.
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

// grown is called after every logged step. It ignores an unreadable log, because a missing picture must not end the training.
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
