package run

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/verb"
)

// claimPlan is a claim before it is made.
type claimPlan struct {
	key     *datakey.Key
	claimed Claimed
	call    claimedCall
	// params lack what depends on the id of the run.
	params dbsqlc.ClaimRunParams
}

// planClaim returns the claim that the call asks for. A fault refuses the call.
func (s *Service) planClaim(ctx context.Context, id uuid.UUID, who actor.Actor, req Request) (c claimPlan, err error) {
	name, err := verb.Parse(req.Verb)
	if err != nil {
		return c, err
	}
	if c.key, err = s.d.Keys.Key(ctx, who.TenantID); err != nil {
		return c, fmt.Errorf("run: claim: %w", err)
	}
	print, err := fingerprint(c.key, name, req.Args, req.DryRun)
	if err != nil {
		return c, err
	}
	keys, execution, err := names(id, req)
	if err != nil {
		return c, err
	}
	now := s.d.Now()
	c.claimed = Claimed{giveUp: now.Add(s.waitOf(req)), ownID: req.ExecutionID+req.IdempotencyKey+req.StepKey == "", req: req, print: print}
	c.call = claimedCall{
		Origin: originOf(who, req.Origin, keys[0]), ID: id, ExecutionID: execution, Provider: name.Provider, Verb: name.Verb, DryRun: req.DryRun,
		SessionID: req.SessionID, RequestID: who.RequestID, SourceAddr: who.SourceAddr, GiveUpAt: c.claimed.giveUp,
		Exact: req.KeyByHeader, Unsettled: req.Unsettled,
		ExpiresAt: expiresAt(now, req.ExpiresIn), ExpiresIn: seconds(req.ExpiresIn),
	}
	c.params = dbsqlc.ClaimRunParams{
		Keys: keys, Provider: name.Provider, Verb: name.Verb, DryRun: req.DryRun, TenantID: who.TenantID,
		Fingerprint: print, Metadata: req.Metadata, Digests: [][]byte{},
	}
	return c, nil
}

func (c claimPlan) verb() verb.Name {
	return verb.Name{Provider: c.params.Provider, Verb: c.params.Verb}
}
