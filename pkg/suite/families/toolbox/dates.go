package toolbox

import (
	"errors"
	"fmt"
	"time"
)

var errLength = errors.New("the length is wrong")

// parseDate reads a date such as 2026-03-04. Only the calendar is used, never the clock.
func parseDate(arg, s string) (time.Time, error) {
	var d time.Time
	err := errLength
	if len(s) == len(time.DateOnly) { // the length first: an error of Parse holds a copy of its text
		d, err = time.Parse(time.DateOnly, s)
	}
	if err != nil || d.Year() < 1 {
		return d, fmt.Errorf("%s: %q is not a date, write it 2026-03-04", arg, clip(s))
	}
	return d, nil
}

func checkTime(s string) error {
	const layout = "15:04"
	err := errLength
	if len(s) == len(layout) {
		_, err = time.Parse(layout, s)
	}
	if err != nil {
		return fmt.Errorf("time: %q is not a time, write it 09:30", clip(s))
	}
	return nil
}
