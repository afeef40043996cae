package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// strftime is Python's datetime.strftime for the directives that templates use; others are an error.
func strftime(at time.Time, format string) (string, error) {
	if at.IsZero() {
		return "", errors.New("the template asks for today's date (strftime_now): give one with Template.On, so that the text repeats")
	}
	layouts := map[byte]string{'d': "02", 'm': "01", 'Y': "2006", 'y': "06", 'b': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday",
		'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002", 'F': "2006-01-02"}
	var sb strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			sb.WriteByte(format[i])
			continue
		}
		if i++; i == len(format) {
			return "", fmt.Errorf("strftime_now: %q ends in %%", format)
		}
		layout, known := layouts[format[i]]
		switch {
		case format[i] == '%':
			sb.WriteByte('%')
		case !known:
			return "", fmt.Errorf("strftime_now: %%%c is not supported", format[i])
		default:
			sb.WriteString(at.Format(layout))
		}
	}
	return sb.String(), nil
}

// On returns the template with a date for strftime_now. A template that asks for the date fails without one, because its text would
// change from day to day.
func (t *Template) On(date time.Time) *Template {
	dated := *t
	dated.date = date
	return &dated
}
