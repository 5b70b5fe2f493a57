package policy

import (
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/base/fault"
)

// Period is from its begin up to, and without, its end.
type Period struct{ From, To time.Time }

// defaultPeriod is how far back one looks where nothing is said.
const defaultPeriod = 7 * 24 * time.Hour

// periodOf fills in what is nil: To is now, From a week before To. under begins the
// path of what is wrong: "/" for a body, "query." for parameters.
func (s *Service) periodOf(from, to *time.Time, under string) (Period, error) {
	p := Period{To: s.now()}
	if to != nil {
		p.To = to.UTC()
	}
	if p.From = p.To.Add(-defaultPeriod); p.From.Year() < 1 {
		p.From = time.Time{}
	}
	if from != nil {
		p.From = from.UTC()
	}
	if !p.From.Before(p.To) {
		return Period{}, fault.Invalid(under+"from", "order", "from is before to.")
	}
	return p, nil
}

// bounds are the ids of runs between which the period's lie: ids are UUIDv7, which begin
// with the milliseconds since 1970.
func (p Period) bounds() (low, high uuid.UUID) { return db.FirstID(p.From), db.FirstID(p.To) }
