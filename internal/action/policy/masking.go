package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/actor"
	"agentruntime/internal/kernel/governance"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/record/audit"
)

// MaskPath names an argument that is masked besides what looks secret.
type MaskPath struct {
	// Verb is a verb's name, in which * stands for any characters.
	Verb string `json:"verb"`
	// Path is args.<path>; a segment * stands for any name or position.
	Path string `json:"path"`
}

// Limits on masks.
const (
	maxMasks    = 100
	maxMaskText = 255 // bytes
	maxSegments = 32
)

const argsPrefix = "args."

// verbs is a policy for the verbs that the mask is about.
func (m MaskPath) verbs() governance.Policy {
	return governance.Policy{Name: "mask", Action: governance.ActionBlock, Matchers: []governance.Matcher{{Type: governance.MatchVerb, Value: m.Verb}}}
}

func (m MaskPath) covers(name verb.Name) bool { return m.verbs().Covers(governance.Call{Verb: name}) }

// segments are the names on the way into the arguments, nil where the path cannot be
// read. A backslash takes the next dot or backslash for what it is, as in conditions.
func (m MaskPath) segments() []string {
	rest, ok := strings.CutPrefix(m.Path, argsPrefix)
	if !ok {
		return nil
	}
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
		if len(p.Path) > maxMaskText || p.segments() == nil {
			m.add(fmt.Sprintf("/paths/%d/path", i), "pattern",
				`must be args.<name>, then names or * separated by dots (a dot in a name as \.), at most %d bytes and %d names`, maxMaskText, maxSegments)
		}
	}
	return m.err()
}

// readMasks reads stored masks. Masks that cannot be read mask everything.
func readMasks(raw json.RawMessage) []MaskPath {
	var paths []MaskPath
	if err := json.Unmarshal(raw, &paths); err != nil {
		return []MaskPath{{Verb: "*", Path: argsPrefix + "*"}}
	}
	return paths
}

// Masking returns the tenant's masks.
func (s *Service) Masking(ctx context.Context, tenant uuid.UUID) ([]MaskPath, error) {
	rows, err := s.q.GetMaskPaths(ctx, s.db.Tenant(tenant), tenant)
	if err != nil {
		return nil, fmt.Errorf("policy: read masks: %w", err)
	}
	if len(rows) == 0 {
		return []MaskPath{}, nil
	}
	return readMasks(rows[0]), nil
}

// SetMasking replaces the tenant's masks. They apply to what is shown and stored from
// now on. Audit records and approvals that exist stay as they are.
func (s *Service) SetMasking(ctx context.Context, who actor.Actor, paths []MaskPath) ([]MaskPath, error) {
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
