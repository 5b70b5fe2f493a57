package bounds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// largeImport is an import of a document of about so many bytes: writes with nested bodies, like those
// of generated documents.
func largeImport(tb testing.TB, bytes int) json.RawMessage {
	tb.Helper()
	object := func(members int) m {
		properties := m{}
		for i := range members {
			inner := m{}
			for k := range 6 {
				inner[fmt.Sprintf("g%d", k)] = m{"type": "string", "description": "What this is about."}
			}
			properties[fmt.Sprintf("f%d", i)] = m{"type": "object", "properties": inner}
		}
		return m{"application/json": m{"schema": m{"type": "object", "properties": properties}}}
	}
	paths, size := m{}, 0
	for i := 0; size < bytes; i++ {
		raw, err := json.Marshal(m{"post": m{
			"operationId": fmt.Sprintf("do_%d", i), "requestBody": m{"content": object(8)}, "responses": m{"200": m{"description": "ok", "content": object(2)}},
		}})
		require.NoError(tb, err)
		paths[fmt.Sprintf("/y%d", i)] = json.RawMessage(raw)
		size += len(raw)
	}
	raw, err := json.Marshal(m{"slug": "large", "base_url": "https://api.example.com", "auth": m{"type": "none"}, "openapi": m{
		"openapi": "3.1.0", "info": m{"title": "Large", "version": "1"}, "paths": paths,
	}})
	require.NoError(tb, err)
	return raw
}

// memoryOfImports imports a document of so many bytes as many times at once, each for a tenant of its
// own. The API process may take so many bytes more at most than before, and half a minute later.
func memoryOfImports(t *testing.T, bytes, imports int, peak, after int64) {
	t.Helper()
	memoryOfImport(t, largeImport(t, bytes), imports, peak, after)
}

func memoryOfImport(t *testing.T, body json.RawMessage, imports int, peak, after int64) {
	t.Helper()
	s := rig.Split(t, rig.SplitOptions{})
	users := make([]*rig.Client, imports)
	for i := range users {
		users[i] = s.NewTenant(rig.Address()).User
	}
	s = s.StartAPI("api-imports") // which no sign-up has made work
	for _, user := range users {
		user.Base, user.HTTP = s.APIURL, &http.Client{Timeout: 3 * time.Minute} // three waits of half a minute
	}
	api := s.Parts["api-imports"]
	idle := api.Resident(t)
	began := time.Now()
	for _, a := range together(imports, func(i int) rig.Answer { return importWhenThereIsRoom(users[i], body) }) {
		status(t, a, http.StatusCreated)
	}
	took, used := time.Since(began), api.CPUTime(t)
	more := api.PeakResident(t) - idle
	t.Logf("%d imports of %d KB: %s, %s of CPU time; %d MB before, at most %d MB more, %d MB more at once after", imports, len(body)>>10, took.Round(time.Millisecond), used, idle>>20, more>>20, (api.Resident(t)-idle)>>20)
	require.Less(t, more, peak)
	rig.Until(t, 30*time.Second, "the memory is given back", func() bool { return api.Resident(t)-idle < after })
	t.Logf("%d MB more than before", (api.Resident(t)-idle)>>20)
}

// importWhenThereIsRoom repeats the import while others are under way.
func importWhenThereIsRoom(user *rig.Client, body json.RawMessage) (a rig.Answer) {
	const most = 20
	for range most {
		if a = user.Do(http.MethodPost, "/v1/providers", []byte(body)); a.Status != http.StatusServiceUnavailable {
			break
		}
	}
	return a
}

// However many large documents are uploaded at once, the process takes memory for about one, and gives
// it back. TestChaosImportsOfTheLargestDocumentsTakeBoundedMemory has documents of ten times the size.
func TestImportsTakeLittleMemoryTogether(t *testing.T) {
	t.Parallel()
	memoryOfImports(t, 5<<20/2, 4, 100<<20, 50<<20)
}

// A few bytes of a pattern stand for thousands of instructions, so a document that is small may take the
// memory of a large one. It has the bounds of a large one then.
func TestImportsOfCostlyPatternsTakeLittleMemory(t *testing.T) {
	t.Parallel()
	properties := m{}
	for i := range 500 {
		properties[fmt.Sprintf("p%d", i)] = m{"type": "string", "pattern": fmt.Sprintf("^(?:a{1,900}|b{1,90})$%d", i)}
	}
	operation := func(properties m) m {
		return m{"post": m{"requestBody": m{"content": m{"application/json": m{"schema": m{"type": "object", "properties": properties}}}}, "responses": m{}}}
	}
	raw, err := json.Marshal(m{"slug": "costly", "base_url": "https://api.example.com", "auth": m{"type": "none"}, "openapi": m{
		"openapi": "3.1.0", "info": m{"title": "Costly", "version": "1"}, "paths": m{"/costly": operation(properties), "/plain": operation(m{})},
	}})
	require.NoError(t, err)
	memoryOfImport(t, raw, 4, 150<<20, 50<<20)
}
