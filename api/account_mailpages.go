package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"html/template"
	"net/http"

	"github.com/go-chi/chi/v5"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/account"
)

// The pages that links in mail open. GET shows a form and reads nothing, so programs that open
// links in mail use no token up. The token is in the page and goes no further: the page loads
// nothing, and the log has paths without parameters.
var (
	//go:embed mailpages/page.html
	mailPageText string
	//go:embed mailpages/page.css
	mailPageStyle string
)

// mailPage is what the page shows.
type mailPage struct {
	Title, Text string
	// Problem is why the form is shown again.
	Problem string
	// Button ends the form; "" where there is none any more.
	Button                 string
	Action                 string // relative, so that it works below any public address
	Token, Name            string
	AsksName, AsksPassword bool
}

// mailForm is one page: what it asks, and what its POST does.
type mailForm struct {
	path string
	page mailPage
	done mailPage
	post func(ctx context.Context, c *wire.Call, token, name, password string) error
}

func (h *accountHandlers) mailForms() []mailForm {
	return []mailForm{
		{
			path: account.PageVerify,
			page: mailPage{Title: "Verify your email address", Text: "Press the button to confirm that this address is yours.", Button: "Verify", Action: "verify-email"},
			done: mailPage{Title: "Your email address is verified", Text: "You can close this page."},
			post: func(ctx context.Context, c *wire.Call, token, _, _ string) error {
				return h.accounts.VerifyEmail(ctx, c.Actor, token)
			},
		},
		{
			path: account.PageReset,
			page: mailPage{Title: "Set another password", Text: "All your sessions end when you set it.", Button: "Set password", Action: "reset-password", AsksPassword: true},
			done: mailPage{Title: "Your password is set", Text: "All your sessions have ended. Log in with the new password."},
			post: func(ctx context.Context, c *wire.Call, token, _, password string) error {
				return h.accounts.ResetPassword(ctx, c.Actor, token, password)
			},
		},
		{
			path: account.PageAccept,
			page: mailPage{Title: "Accept the invitation", Text: "Choose the password with which you will log in.", Button: "Join", Action: "accept-invitation", AsksName: true, AsksPassword: true},
			done: mailPage{Title: "Welcome", Text: "You have joined. Log in with your email address and the password."},
			post: h.acceptByPage,
		},
	}
}

func (h *accountHandlers) acceptByPage(ctx context.Context, c *wire.Call, token, name, password string) error {
	return h.accounts.Join(ctx, c.Actor, account.AcceptInput{Token: token, Name: name, Password: password})
}

// mountMailPages serves the pages to anyone.
func (h *accountHandlers) mountMailPages(mux chi.Router) {
	tmpl := template.Must(template.New("").Parse(mailPageText))
	hash := sha256.Sum256([]byte(mailPageStyle))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	show := func(status int, p mailPage) wire.HTML {
		var b bytes.Buffer
		err := tmpl.Execute(&b, struct {
			mailPage

			Style template.CSS
		}{p, template.CSS(mailPageStyle)}) //nolint:gosec // a file of this package
		if err != nil {
			return wire.HTML{Status: http.StatusInternalServerError}
		}
		return wire.HTML{Status: status, Body: b.Bytes()}
	}
	for _, f := range h.mailForms() {
		get := wire.RespondHTML(policy, func(_ context.Context, c *wire.Call) wire.HTML {
			p := f.page
			p.Token = c.Request.URL.Query().Get("token")
			return show(http.StatusOK, p)
		})
		mux.Method(http.MethodGet, f.path, get)
		mux.Method(http.MethodHead, f.path, get)
		mux.Method(http.MethodPost, f.path, wire.RespondHTML(policy, func(ctx context.Context, c *wire.Call) wire.HTML {
			return f.submit(ctx, c, show)
		}))
	}
}

// submit does what the form asks. A refusal shows the form again, except where the token can no
// longer be used.
func (f mailForm) submit(ctx context.Context, c *wire.Call, show func(int, mailPage) wire.HTML) wire.HTML {
	form, err := c.ReadForm(bodyManagement)
	if err == nil {
		err = f.post(ctx, c, form.Get("token"), form.Get("name"), form.Get("new_password"))
	}
	if err == nil {
		return show(http.StatusOK, f.done)
	}
	refusal := c.Fault(err)
	p := f.page
	p.Token, p.Name, p.Problem = form.Get("token"), form.Get("name"), refusal.Message
	if refusal.Code == fault.CodeInvalidToken || refusal.Code == fault.CodeTokenExpired {
		p = mailPage{Title: "This link can no longer be used", Text: "It was used already, is too old, or another one has taken its place. Ask for a new mail."}
	}
	return show(refusal.Code.Spec().Status, p)
}
