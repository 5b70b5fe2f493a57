package mapdef

import (
	"errors"
	"regexp"
	"strconv"
	"time"
)

// DefaultTimeout bounds the retries and the sending of a step that does not say otherwise.
// It does not bound waits for people.
const DefaultTimeout = Duration(15 * time.Minute)

// AnswerTime is how long the question of a manager waits for its answer.
const AnswerTime = Duration(7 * 24 * time.Hour)

// MaxDuration is the longest duration that a definition may name.
const MaxDuration = Duration(366 * 24 * time.Hour)

// durationText is the pattern of a duration.
const durationText = `^([0-9]{1,12})(ms|s|m|h|d)$`

// Duration is written as a whole number with one unit: 400ms, 30s, 5m, 2h or 7d.
type Duration time.Duration

var durationPattern = regexp.MustCompile(durationText)

// ErrDuration says how a duration is written.
var ErrDuration = errors.New("must be a duration such as 400ms, 30s, 5m, 2h or 7d, of at most 366 days")

// ParseDuration reads a duration; ErrDuration where text is none.
func ParseDuration(text string) (Duration, error) {
	parts := durationPattern.FindStringSubmatch(text)
	if parts == nil {
		return 0, ErrDuration
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return 0, ErrDuration
	}
	unit := unitOf(parts[2])
	if n > int64(MaxDuration)/int64(unit) {
		return 0, ErrDuration
	}
	return Duration(n * int64(unit)), nil
}

func unitOf(name string) time.Duration {
	switch name {
	case "ms":
		return time.Millisecond
	case "s":
		return time.Second
	case "m":
		return time.Minute
	case "h":
		return time.Hour
	default:
		return 24 * time.Hour
	}
}

// Std returns the duration as Go's.
func (d Duration) Std() time.Duration { return time.Duration(d) }
