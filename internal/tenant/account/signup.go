package account

import (
	"cmp"
	"context"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

const (
	maxEmail = 254 // characters: RFC 5321 gives a path 256 with its brackets
	maxName  = 255 // characters
)

// Signup says who may become a user of the installation.
type Signup string

const (
	// SignupOpen lets anybody make a tenant, and be invited into one.
	SignupOpen Signup = "open"
	// SignupInvite lets people become users only where a user of a tenant has invited them.
	SignupInvite Signup = "invite"
	// SignupClosed lets nobody become a user. CreateOwner makes owners.
	SignupClosed Signup = "closed"
)

// admits refuses with SIGNUP_CLOSED where the installation takes new users in none of these ways.
// It looks at no address, so the refusal does not tell which ones are known.
func (s *Service) admits(ways ...Signup) error {
	if slices.Contains(ways, s.cfg.Signup) {
		return nil
	}
	if s.cfg.Signup == SignupInvite {
		return fault.New(fault.CodeSignupClosed, "People join this installation by invitation only: ask an owner or admin of a tenant for one.")
	}
	return fault.New(fault.CodeSignupClosed, "")
}

// signedUp is the one answer to a sign-up, whether or not the address is known.
const signedUp = "If the address was not in use, the account exists now: log in with the email and password. A mail to the address says how to verify it."

// SignupInput is what a person signs up with.
type SignupInput struct {
	Email, Password string
	Name            string // optional
}

// SignedUp is the answer to a sign-up.
type SignedUp struct {
	// UserID belongs to no user if the address was taken: the caller must not learn that
	// it was.
	UserID  uuid.UUID
	Message string
}

// SignUp makes a tenant that its caller owns, and mails the address a link to verify it. A known
// address gets the same answer after the same work and nothing changes; its mail says so. An invited
// address is free. It refuses with SIGNUP_CLOSED, VALIDATION_ERROR or WEAK_PASSWORD.
func (s *Service) SignUp(ctx context.Context, who actor.Actor, in SignupInput) (SignedUp, error) {
	if err := s.admits(SignupOpen); err != nil {
		return SignedUp{}, err
	}
	row, err := s.ownerOf(ctx, who, in, cmp.Or(in.Name, strings.ToLower(in.Email)))
	if err != nil {
		return SignedUp{}, err
	}
	row.ActorType, row.ActorID = string(actor.User), row.UserID.String() // it is their own act
	asked := &db.Batch{}
	s.queueAsked(asked, who, MailSignup, row.Email, &row.UserID)
	if err := s.d.DB.InTenant(ctx, row.TenantID, func(tx pgx.Tx) error { return s.makeOwner(ctx, tx, row, asked) }); err != nil {
		return SignedUp{}, fmt.Errorf("account: sign up: %w", err)
	}
	return SignedUp{UserID: row.UserID, Message: signedUp}, nil
}

// ownerOf checks what a person signs up with, and returns the row of the owner of a new tenant.
func (s *Service) ownerOf(ctx context.Context, who actor.Actor, in SignupInput, tenant string) (row dbsqlc.SignUpParams, err error) {
	email, err := newAddress(in.Email)
	if err != nil {
		return row, err
	}
	if in.Name != "" {
		if err := checkName(in.Name); err != nil {
			return row, err
		}
	}
	if err := checkNewPassword(in.Password); err != nil {
		return row, err
	}
	hash, err := s.hashPassword(ctx, who, in.Password)
	if err != nil {
		return row, err
	}
	return dbsqlc.SignUpParams{
		UserID: newID(), TenantID: newID(), Email: email, PasswordHash: hash, Name: in.Name, Now: s.now(), TenantName: tenant,
		PolicyID: newID(), Policy: s.d.FirstPolicy, PolicyRecordID: newID(),
		RecordID: newID(), RequestID: who.RequestID, SourceAddr: who.SourceAddr, ActorType: string(who.Kind), ActorID: who.IDText(),
	}, nil
}

// makeOwner makes the tenant and its owner, or nothing where the address is taken, and queues the
// mail. The sender finds out which of them to tell of. In both cases it sends the same statements and writes the same rows, so that its time does not tell them
// apart: for a taken address the rows are made with another one, and undone.
func (s *Service) makeOwner(ctx context.Context, tx pgx.Tx, row dbsqlc.SignUpParams, asked *db.Batch) error {
	b := &db.Batch{}
	db.QueueExec(b, s.q.PresentAddress, row.Email)
	db.Queue(b, s.q.SignUp, row)
	if err := b.SendIn(ctx, tx); err != nil {
		return err
	}
	undone, err := tx.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin what is undone: %w", err)
	}
	row.Email = row.UserID.String() + "@taken.invalid"
	if _, err := s.q.SignUp(ctx, undone, row); err != nil {
		return fmt.Errorf("write what is undone: %w", err)
	}
	if err := undone.Rollback(ctx); err != nil {
		return fmt.Errorf("undo: %w", err)
	}
	return asked.SendIn(ctx, tx)
}

func (s *Service) hashPassword(ctx context.Context, who actor.Actor, password string) (string, error) {
	free, err := s.slots.take(ctx, who.Network())
	if err != nil {
		return "", err
	}
	defer free()
	return s.passwords.hash(password), nil
}

// newAddress checks an email address and returns it in lower case. Addresses are
// ASCII (an international domain in its xn-- form), so that two that look alike
// are never two users.
func newAddress(email string) (string, error) {
	if email == "" {
		return "", fault.Invalid("/email", "required", "email is required.")
	}
	parsed, err := mail.ParseAddress(email)
	ascii := !strings.ContainsFunc(email, func(r rune) bool { return r <= ' ' || r > '~' })
	if err != nil || !ascii || parsed.Address != email || len(email) > maxEmail || strings.Contains(email, `"`) {
		return "", fault.Invalid("/email", "format", "email is an address like name@example.com.")
	}
	return strings.ToLower(email), nil
}

// checkName enforces 1 to 255 characters that can be shown.
func checkName(name string) error {
	switch n := utf8.RuneCountInString(name); {
	case n == 0:
		return fault.Invalid("/name", "required", "name is required.")
	case n > maxName, strings.TrimSpace(name) == "", strings.ContainsFunc(name, unicode.IsControl):
		return fault.Invalid("/name", "length", "name has 1 to 255 characters, not blank and none of them a control character.")
	}
	return nil
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
