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

// memoryOfImports makes the imports at once, each for a tenant of its own. The API process may take so
// many bytes more at most than before, and half a minute later.
func memoryOfImports(t *testing.T, imports []upload, peak, after int64) {
	t.Helper()
	s := rig.Split(t, rig.SplitOptions{})
	users, size := make([]*rig.Client, len(imports)), 0
	for i, u := range imports {
		users[i], size = s.NewTenant(rig.Address()).User, size+u.size
	}
	s = s.StartAPI("api-imports") // which no sign-up has made work
	for _, user := range users {
		user.Base, user.HTTP = s.APIURL, &http.Client{Timeout: 3 * time.Minute} // three waits of half a minute
	}
	api := s.Parts["api-imports"]
	idle := api.Resident(t)
	began := time.Now()
	for i, a := range together(len(imports), func(i int) rig.Answer { return importWhenThereIsRoom(users[i], imports[i]) }) {
		require.Equal(t, http.StatusCreated, a.Status, "%s: %.1000s %v", imports[i].format, a.Body, a.Err)
		var report struct{ Imported int }
		a.Data(t, &report)
		require.Positive(t, report.Imported, imports[i].format)
	}
	took, used := time.Since(began), api.CPUTime(t)
	more := api.PeakResident(t) - idle
	t.Logf("%d imports of %d KB together: %s, %s of CPU time; %d MB before, at most %d MB more, %d MB more at once after", len(imports), size>>10, took.Round(time.Millisecond), used, idle>>20, more>>20, (api.Resident(t)-idle)>>20)
	require.Less(t, more, peak)
	rig.Until(t, 30*time.Second, "the memory is given back", func() bool { return api.Resident(t)-idle < after })
	t.Logf("%d MB more than before", (api.Resident(t)-idle)>>20)
}

// importWhenThereIsRoom repeats the import while others are under way.
func importWhenThereIsRoom(user *rig.Client, u upload) (a rig.Answer) {
	const most = 20
	for range most {
		if a = user.Do(http.MethodPost, "/v1/providers", u.body, "Content-Type: "+u.contentType); a.Status != http.StatusServiceUnavailable {
			break
		}
	}
	return a
}

// However many large documents are uploaded at once, and in whatever form, the process takes memory for
// about one, and gives it back. TestChaosImportsOfTheLargestDocumentsTakeBoundedMemory has documents of
// ten times the size.
func TestImportsTakeLittleMemoryTogether(t *testing.T) {
	t.Parallel()
	const most = 5 << 20 / 2
	memoryOfImports(t, []upload{jsonUpload(t, most), archiveUpload(t, most), addressUpload(t, most), yamlUpload(t, most/5, most/10), swaggerUpload(t, most)}, 100<<20, 50<<20)
}

// A few bytes of a pattern stand for thousands of instructions, so a document that is small may take the
// memory of a large one. It has the bounds of a large one then.
func TestImportsOfCostlyPatternsTakeLittleMemory(t *testing.T) {
	t.Parallel()
	properties := m{}
	for i := range 90 {
		properties[fmt.Sprintf("p%d", i)] = m{"type": "string", "pattern": fmt.Sprintf("^(?:a{1,900}|b{1,90})$%d", i)}
	}
	operation := func(properties m) m {
		return m{"post": m{"requestBody": m{"content": m{"application/json": m{"schema": m{"type": "object", "properties": properties}}}}, "responses": m{}}}
	}
	raw, err := json.Marshal(m{"slug": "costly", "base_url": "https://api.example.com", "auth": m{"type": "none"}, "openapi": m{
		"openapi": "3.1.0", "info": m{"title": "Costly", "version": "1"}, "paths": m{"/costly": operation(properties), "/plain": operation(m{})},
	}})
	require.NoError(t, err)
	memoryOfImports(t, repeated(4, upload{"JSON", "application/json", raw, len(raw)}), 150<<20, 50<<20)
}
