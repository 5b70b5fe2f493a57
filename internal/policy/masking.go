package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/audit"
	"agentruntime/internal/verb"
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

func (m MaskPath) covers(name verb.Name) bool { return glob(m.Verb, name.String()) }

// glob reports whether the pattern, in which * stands for any characters, is the text.
func glob(pattern, text string) bool {
	head, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, head)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "*")
	tail := parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, tail)
}

func checkMasks(paths []MaskPath) error {
	var m mistakes
	if len(paths) > maxMasks {
		m.add("/paths", "maxItems", "paths has at most %d entries.", maxMasks)
		return m.err()
	}
	for i, p := range paths {
		if len(p.Verb) < 1 || len(p.Verb) > maxMaskText || strings.ContainsFunc(p.Verb, func(r rune) bool { return r <= ' ' || r > '~' }) {
			m.add(fmt.Sprintf("/paths/%d/verb", i), "pattern", "verb is a verb's name, * standing for any characters: 1 to %d visible ASCII characters.", maxMaskText)
		}
		inner, isArgs := strings.CutPrefix(p.Path, argsPrefix)
		segments := strings.Split(inner, ".")
		empty := strings.HasPrefix(inner, ".") || strings.HasSuffix(inner, ".") || strings.Contains(inner, "..") || inner == ""
		if !isArgs || empty || len(p.Path) > maxMaskText || len(segments) > maxSegments {
			m.add(fmt.Sprintf("/paths/%d/path", i), "pattern", "path is args.<name>, then names or * separated by dots, at most %d bytes and %d names.", maxMaskText, maxSegments)
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

// SetMasking replaces the tenant's masks. They hold for what is shown and stored from
// now on; what audit records and approvals hold already stays as it is.
func (s *Service) SetMasking(ctx context.Context, tenant uuid.UUID, paths []MaskPath) ([]MaskPath, error) {
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
	err = s.db.InTenant(ctx, tenant, func(tx pgx.Tx) error {
		if _, err := s.q.SetMaskPaths(ctx, tx, dbsqlc.SetMaskPathsParams{TenantID: tenant, MaskPaths: raw}); err != nil {
			return fmt.Errorf("policy: store masks: %w", err)
		}
		rec := audit.Change(ctx, tenant, "masking.updated", "masking", tenant.String())
		rec.Details = json.RawMessage(fmt.Sprintf(`{"paths":%s}`, raw))
		return audit.Append(ctx, tx, rec)
	})
	if err != nil {
		return nil, err
	}
	return paths, nil
}
