package account

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// OwnerInput is the owner whom the operator of the installation makes, and their tenant.
type OwnerInput struct {
	Email, Password string
	Tenant          string // name of the tenant
}

// Owner is a new owner and their tenant.
type Owner struct {
	UserID, TenantID uuid.UUID
	Email, Tenant    string
}

// CreateOwner makes a tenant and its owner, also where sign-up is closed. The operator vouches for
// the address, so it counts as verified and no mail is sent. It refuses with VALIDATION_ERROR and
// WEAK_PASSWORD, and with CONFLICT where the address belongs to a user.
func (s *Service) CreateOwner(ctx context.Context, who actor.Actor, in OwnerInput) (Owner, error) {
	if err := checkName(in.Tenant); err != nil {
		return Owner{}, fault.Invalid("/tenant", "length", "tenant has 1 to 255 characters, not blank and none of them a control character.")
	}
	row, err := s.ownerOf(ctx, who, SignupInput{Email: in.Email, Password: in.Password}, in.Tenant)
	if err != nil {
		return Owner{}, err
	}
	err = s.d.DB.InTenant(ctx, row.TenantID, func(tx pgx.Tx) error {
		b := &db.Batch{}
		db.QueueExec(b, s.q.PresentAddress, row.Email)
		made := db.Queue(b, s.q.SignUp, row)
		db.Queue(b, s.q.VerifyEmail, dbsqlc.VerifyEmailParams{TenantID: row.TenantID, ID: row.UserID, Email: row.Email, Now: row.Now})
		if err := b.SendIn(ctx, tx); err != nil {
			return fmt.Errorf("account: create owner: %w", err)
		}
		if !made.Value.Created {
			return fault.New(fault.CodeConflict, "The address "+row.Email+" belongs to a user already. Take another one, or have them log in.")
		}
		return nil
	})
	if err != nil {
		return Owner{}, err
	}
	return Owner{UserID: row.UserID, TenantID: row.TenantID, Email: row.Email, Tenant: in.Tenant}, nil
}
