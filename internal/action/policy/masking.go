package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/record/audit"
)

// Part is a part of a run in which masks hide values.
type Part string

// Parts, as the paths of masks begin.
const (
	PartArgs     Part = "args"
	PartMetadata Part = "metadata"
	PartResult   Part = "result"
)

// MaskPath names a value that is masked besides what looks secret.
type MaskPath struct {
	// Verb is a verb's name, in which * stands for any characters.
	Verb string `json:"verb"`
	// Path is <part>.<path>; a segment * stands for any name or position.
	Path string `json:"path"`
}

// Limits on masks.
const (
	maxMasks    = 100
	maxMaskText = 255 // bytes
	maxSegments = 32
)

// verbs is a policy for the verbs that the mask is about.
func (m MaskPath) verbs() governance.Policy {
	return governance.Policy{Name: "mask", Action: governance.ActionBlock, Matchers: []governance.Matcher{{Type: governance.MatchVerb, Value: m.Verb}}}
}

func (m MaskPath) covers(name verb.Name) bool { return m.verbs().Covers(governance.Call{Verb: name}) }

// split returns the part and the names on the way into it, nil where the path cannot be
// read. A backslash takes the next dot or backslash for what it is, as in conditions.
func (m MaskPath) split() (part Part, names []string) {
	first, rest, _ := strings.Cut(m.Path, ".")
	switch part = Part(first); part {
	case PartArgs, PartMetadata, PartResult:
		return part, segments(rest)
	default:
		return "", nil
	}
}

func segments(rest string) []string {
	var list []string
	var name strings.Builder
	for i := 0; i <= len(rest); i++ {
		switch {
		case i == len(rest) || rest[i] == '.':
			if name.Len() == 0 || len(list) == maxSegments {
				return nil
			}
			list = append(list, name.String())
			name.Reset()
		case rest[i] == '\\':
			if i++; i == len(rest) || (rest[i] != '.' && rest[i] != '\\') {
				return nil
			}
			name.WriteByte(rest[i])
		default:
			name.WriteByte(rest[i])
		}
	}
	return list
}

func checkMasks(paths []MaskPath) error {
	var m mistakes
	if len(paths) > maxMasks {
		m.add("/paths", "maxItems", "must have at most %d entries", maxMasks)
		return m.err()
	}
	for i, p := range paths {
		for _, d := range governance.CheckPolicy(p.verbs()) {
			m.add(fmt.Sprintf("/paths/%d/verb", i), d.Rule, "%s", d.Message)
		}
		if _, names := p.split(); len(p.Path) > maxMaskText || names == nil {
			m.add(fmt.Sprintf("/paths/%d/path", i), "pattern",
				`must be args.<name>, metadata.<name> or result.<name>, then names or * separated by dots (a dot in a name as \.), at most %d bytes and %d names`, maxMaskText, maxSegments)
		}
	}
	return m.err()
}

// Masks are the masks of a tenant.
type Masks []MaskPath

// Paths returns the paths into a part of a run of the verb that the tenant wants masked, as
// redact.Masker.Also takes them.
func (m Masks) Paths(part Part, name verb.Name) [][]string {
	var paths [][]string
	for _, one := range m {
		to, names := one.split()
		switch {
		case !one.covers(name):
		case names == nil: // stored unreadable: masked is what it might have meant
			paths = append(paths, []string{redact.AnyName})
		case to == part:
			paths = append(paths, names)
			if part == PartMetadata {
				// Of the calls of agents and Maps, what the caller has written is a member of it.
				paths = append(paths, append([]string{governance.MessageMember}, names...))
			}
		}
	}
	return paths
}

// readMasks reads stored masks. Masks that cannot be read mask everything.
func readMasks(raw json.RawMessage) Masks {
	var paths Masks
	if err := json.Unmarshal(raw, &paths); err != nil {
		return MaskAll()
	}
	return paths
}

// MaskAll returns masks that hide every value of every run.
func MaskAll() Masks {
	var paths Masks
	for _, part := range []Part{PartArgs, PartMetadata, PartResult} {
		paths = append(paths, MaskPath{Verb: "*", Path: string(part) + ".*"})
	}
	return paths
}

// Masks returns the tenant's masks as they stand, for a caller that needs no policies.
func (s *Sets) Masks(ctx context.Context, tenant uuid.UUID) (Masks, error) {
	return masksOf(ctx, s.q, s.db, tenant)
}

func masksOf(ctx context.Context, q *dbsqlc.Queries, on *db.Pool, tenant uuid.UUID) (Masks, error) {
	rows, err := q.GetMaskPaths(ctx, on.Tenant(tenant), tenant)
	if err != nil {
		return nil, fmt.Errorf("policy: read masks: %w", err)
	}
	if len(rows) == 0 {
		return Masks{}, nil
	}
	return readMasks(rows[0]), nil
}

// Masking returns the tenant's masks.
func (s *Service) Masking(ctx context.Context, tenant uuid.UUID) ([]MaskPath, error) {
	return masksOf(ctx, s.q, s.db, tenant)
}

// SetMasking replaces the tenant's masks. They apply to what is shown and stored from
// now on. Audit records and approvals that exist stay as they are. expect is asked about the
// masks that are replaced.
func (s *Service) SetMasking(ctx context.Context, who actor.Actor, paths []MaskPath, expect fault.Expect[[]MaskPath]) ([]MaskPath, error) {
	if paths == nil {
		paths = []MaskPath{}
	}
	if err := checkMasks(paths); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(paths)
	if err != nil {
		return nil, fmt.Errorf("policy: encode masks: %w", err)
	}
	err = s.db.InTenant(ctx, who.TenantID, func(tx pgx.Tx) error {
		if err := s.expectMasks(ctx, tx, who.TenantID, expect); err != nil {
			return err
		}
		if _, err := s.q.SetMaskPaths(ctx, tx, dbsqlc.SetMaskPathsParams{TenantID: who.TenantID, MaskPaths: raw}); err != nil {
			return fmt.Errorf("policy: store masks: %w", err)
		}
		rec := audit.Change(who, audit.MaskingUpdated, audit.SubjectMasking, who.TenantID.String())
		rec.Details = json.RawMessage(fmt.Sprintf(`{"paths":%s}`, raw))
		return audit.Append(ctx, tx, rec)
	})
	if err != nil {
		return nil, err
	}
	return paths, nil
}

// expectMasks asks expect about the masks that stand, and keeps them until the transaction ends.
func (s *Service) expectMasks(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, expect fault.Expect[[]MaskPath]) error {
	if expect == nil {
		return nil
	}
	if _, err := s.q.BumpPolicySet(ctx, tx, tenant); err != nil {
		return fmt.Errorf("policy: take turns: %w", err)
	}
	rows, err := s.q.GetMaskPaths(ctx, tx, tenant)
	if err != nil {
		return fmt.Errorf("policy: read masks: %w", err)
	}
	masks := Masks{}
	if len(rows) > 0 {
		masks = readMasks(rows[0])
	}
	return expect.Check(masks)
}
