package db

import "time"

// Clock returns now in UTC and in microseconds, the precision of Postgres. So the time that a
// method returns for a new row equals the one that is read from it later. A nil now means
// time.Now.
func Clock(now func() time.Time) func() time.Time {
	if now == nil {
		now = time.Now
	}
	return func() time.Time { return now().UTC().Truncate(time.Microsecond) }
}

// UTC returns the time in UTC, nil for none. Postgres returns times in the zone of the
// process.
func UTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
