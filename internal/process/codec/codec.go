// Package codec serves the endpoint by which the Temporal UI shows payloads of the service to
// operators in the clear. The command `agentruntime codec` and the development server run it.
// It decodes only, stores nothing, and shows nothing without the consent of its guard.
package codec

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxBody is the most bytes of a request. Payloads of the service have a few hundred.
const maxBody = 1 << 20

// atOnce is how many requests are decoded at once; a body takes some 50 times its size.
const atOnce = 4

// Guard decides who may read.
type Guard interface {
	// Verify returns nil for a token whose owner may read. Its error is for the log.
	Verify(ctx context.Context, token string) error
}

// Decoder opens payloads.
type Decoder interface {
	// DecodeJSON takes and returns {"payloads": […]}. It returns an error for another JSON.
	DecodeJSON(text []byte) ([]byte, error)
}

// Deps are the collaborators; all but Now are required.
type Deps struct {
	Guard   Guard
	Decoder Decoder
	Log     *slog.Logger
	// Now is time.Now by default.
	Now func() time.Time
}

// endpoint is the handler.
type endpoint struct {
	origins []string
	d       Deps
	places  chan struct{}
	refused refusals
}

// New returns the handler. origins are those of the Temporal UIs that may call it, for example
// https://temporal.example.com.
func New(origins []string, d Deps) (http.Handler, error) {
	if len(origins) == 0 || d.Guard == nil || d.Decoder == nil || d.Log == nil {
		return nil, errors.New("codec: origins, guard, decoder and log are required")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	e := &endpoint{origins: origins, d: d, places: make(chan struct{}, atOnce)}
	mux := http.NewServeMux()
	for _, path := range []string{"GET /healthz", "GET /readyz"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, []byte(`{"status":"ok"}`)) })
	}
	mux.HandleFunc("OPTIONS /decode", e.preflight)
	mux.HandleFunc("POST /decode", e.decode)
	return mux, nil
}

// allowed sets the headers that let the UI read the answer. It returns false for a page of
// another origin. A program that is no browser sends no origin.
func (e *endpoint) allowed(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if !slices.Contains(e.origins, origin) {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	return true
}

func (e *endpoint) preflight(w http.ResponseWriter, r *http.Request) {
	if !e.allowed(w, r) {
		e.note(r, errOrigin)
		refuse(w, http.StatusForbidden, "The origin is not one of CODEC_ORIGINS.")
		return
	}
	w.Header().Set("Access-Control-Allow-Methods", http.MethodPost)
	// What the UI sends; see https://docs.temporal.io/production-deployment/data-encryption.
	w.Header().Set("Access-Control-Allow-Headers", "Content-Type, X-Namespace, Authorization, Authorization-Extras")
	w.Header().Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

func (e *endpoint) decode(w http.ResponseWriter, r *http.Request) {
	if !e.allowed(w, r) {
		e.note(r, errOrigin)
		refuse(w, http.StatusForbidden, "The origin is not one of CODEC_ORIGINS.")
		return
	}
	if err := e.d.Guard.Verify(r.Context(), bearer(r)); err != nil {
		e.note(r, err)
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "A valid token of the issuer of the operators, with the required claim, is needed.")
		return
	}
	select {
	case e.places <- struct{}{}:
		defer func() { <-e.places }()
	case <-r.Context().Done():
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		refuse(w, http.StatusRequestEntityTooLarge, "The body has more than 1 MiB.")
		return
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "The body could not be read.")
		return
	}
	open, err := e.d.Decoder.DecodeJSON(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "The body is not a list of payloads.")
		return
	}
	answer(w, http.StatusOK, open)
}

// bearer returns the token of the request, "" where it has none, or several.
func bearer(r *http.Request) string {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

func refuse(w http.ResponseWriter, status int, message string) {
	text, err := json.Marshal(map[string]string{"error": message})
	if err != nil {
		panic(err) // a text always encodes
	}
	answer(w, status, text)
}

func answer(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the caller may be gone
}
