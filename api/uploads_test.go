package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/openapi"
	"agentruntime/internal/service/importing"
)

// upload is a call of a tenant that has not been read.
func upload(tenant uuid.UUID, size int64) *wire.Call {
	r := httptest.NewRequest(http.MethodPost, "/v1/providers", strings.NewReader("{}"))
	r.ContentLength = size
	return &wire.Call{Actor: actor.Actor{TenantID: tenant}, Request: r}
}

func TestUploadsWaitBeforeTheirBodyIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u, a, b, c := newUploads(nil), uuid.New(), uuid.New(), uuid.New()
		leaveA, err := u.enter(t.Context(), upload(a, bodyUpload))
		require.NoError(t, err)
		leaveB, err := u.enter(t.Context(), upload(b, -1)) // of unknown size
		require.NoError(t, err)

		entered := make(chan string, 2)
		wait := func(name string, tenant uuid.UUID) {
			go func() {
				if leave, err := u.enter(t.Context(), upload(tenant, bodyUpload)); err == nil {
					entered <- name
					leave()
				}
			}()
			synctest.Wait()
		}
		wait("another of a", a)
		wait("one of c", c)
		require.Empty(t, entered, "two bodies are in memory")
		small, err := u.enter(t.Context(), upload(a, smallUpload))
		require.NoError(t, err, "a small one does not wait")
		small()
		leaveB()
		require.Equal(t, "one of c", <-entered, "a has its share")
		leaveA()
		require.Equal(t, "another of a", <-entered)
	})
}

// slowDocs is an importer whose foreign server does not send.
type slowDocs struct {
	Importer
	asked, sends chan struct{}
}

func (d slowDocs) Fetch(_ context.Context, _ actor.Actor, _ string, room func(int64) error) (importing.Fetched, error) {
	d.asked <- struct{}{}
	<-d.sends
	return importing.Fetched{}, room(bodyUpload)
}

// However many foreign servers do not send, uploads of others go on. What has come waits for its room.
func TestDocumentsThatAreFetchedTakeTheTurnOfAnUploadOnceTheyAreHere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slow = 2 * uploadsAtOnce
		docs := slowDocs{asked: make(chan struct{}, slow), sends: make(chan struct{})}
		s := assemble(Deps{Importer: docs})
		fetched := make(chan error, slow)
		for range slow {
			go func() {
				fetched <- s.providers.fetchDocument(t.Context(), upload(uuid.New(), 100), &openapi.ImportInput{}, "https://docs.example")
			}()
		}
		for range slow {
			<-docs.asked
		}
		var leave []func()
		for range uploadsAtOnce {
			l, err := s.uploads.enter(t.Context(), upload(uuid.New(), bodyUpload))
			require.NoError(t, err)
			leave = append(leave, l)
		}
		close(docs.sends)
		synctest.Wait()
		require.Empty(t, fetched, "the uploads have the room")
		for _, l := range leave {
			l()
		}
		for range uploadsAtOnce {
			require.NoError(t, <-fetched)
		}
	})
}

func TestUploadsBeyondTheLineAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u, a := newUploads(nil), uuid.New()
		_, err := u.enter(t.Context(), upload(a, bodyUpload))
		require.NoError(t, err)
		refused := make(chan error, uploadsEach)
		for range uploadsEach {
			go func() {
				_, err := u.enter(t.Context(), upload(a, bodyUpload))
				refused <- err
			}()
		}
		synctest.Wait()
		require.Empty(t, refused)
		call := upload(a, bodyUpload)
		_, err = u.enter(t.Context(), call)
		f := fault.As(err)
		require.Equal(t, fault.CodeServiceUnavailable, f.Code)
		require.Equal(t, uploadRetry, f.RetryAfter)
		left, err := io.ReadAll(call.Request.Body)
		require.NoError(t, err)
		require.Empty(t, left, "its body is read, so that the caller reads the answer")
		for range uploadsEach {
			require.Equal(t, fault.CodeServiceUnavailable, fault.As(<-refused).Code, "none came in time")
		}
	})
}
