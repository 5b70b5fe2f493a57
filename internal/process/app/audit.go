package app

import (
	"fmt"

	"agentruntime/internal/process/config"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/chain"
)

// buildAudit makes what seals, exports and verifies the audit trail.
func (a *App) buildAudit() error {
	seed, err := config.Key(a.cfg.AuditSeed)
	if err != nil {
		return fmt.Errorf("app: audit signing key: %w", err)
	}
	d := audit.Deps{DB: a.pool, Log: a.log}
	if d.Signer, err = chain.NewSigner(seed); err != nil {
		return err
	}
	for _, old := range a.cfg.AuditOldKeys {
		key, err := config.Key(old)
		if err != nil {
			return fmt.Errorf("app: old audit public key: %w", err)
		}
		d.OldKeys = append(d.OldKeys, key)
	}
	a.trail, err = audit.New(audit.Config{}, d)
	return err
}
