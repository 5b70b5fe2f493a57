package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/verb"
)

// answerRows is how many answers go in one statement: about 4 MiB of the largest.
const answerRows = 250

// Answer returns the JSON Schema of the body of a verb's successful answer, of the tenant's own verb or
// one of the platform's that the tenant has enabled. It is nil where none is known.
func (c *Catalog) Answer(ctx context.Context, tenant uuid.UUID, name verb.Name) (json.RawMessage, error) {
	found, err := c.q.GetVerbAnswer(ctx, c.db.Tenant(tenant), dbsqlc.GetVerbAnswerParams{TenantID: tenant, Provider: name.Provider, Name: name.Verb})
	if err != nil {
		return nil, fmt.Errorf("catalog: read the answer of %s: %w", name, err)
	}
	for _, answer := range found {
		return json.RawMessage(answer), nil
	}
	return nil, nil
}

// replaceAnswers stores the answers of a provider's verbs in place of those that were there.
func (c *Catalog) replaceAnswers(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, slug string, verbs []verb.Definition) error {
	if err := c.q.DeleteVerbAnswers(ctx, tx, dbsqlc.DeleteVerbAnswersParams{TenantID: tenant, Provider: slug}); err != nil {
		return fmt.Errorf("catalog: remove the old answers: %w", err)
	}
	err := inAnswers(verbs, func(names, answers []string) error {
		return c.q.InsertVerbAnswers(ctx, tx, dbsqlc.InsertVerbAnswersParams{TenantID: tenant, Provider: slug, Names: names, Answers: answers})
	})
	if err != nil {
		return fmt.Errorf("catalog: store answers: %w", err)
	}
	return nil
}

// replaceAnswers stores the answers of a provider's verbs in place of those that were there.
func (s *Platform) replaceAnswers(ctx context.Context, tx pgx.Tx, slug string, verbs []verb.Definition) error {
	if err := s.q.DeletePlatformVerbAnswers(ctx, tx, slug); err != nil {
		return err
	}
	return inAnswers(verbs, func(names, answers []string) error {
		return s.q.InsertPlatformVerbAnswers(ctx, tx, dbsqlc.InsertPlatformVerbAnswersParams{Provider: slug, Names: names, Answers: answers})
	})
}

// inAnswers stores the answers of the verbs that have one, some at a time.
func inAnswers(verbs []verb.Definition, store func(names, answers []string) error) error {
	for some := range slices.Chunk(verbs, answerRows) {
		var names, answers []string
		for _, v := range some {
			if v.Answer != nil {
				names, answers = append(names, v.Name), append(answers, string(v.Answer))
			}
		}
		if len(names) == 0 {
			continue
		}
		if err := store(names, answers); err != nil {
			return err
		}
	}
	return nil
}
