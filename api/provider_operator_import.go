package api

import (
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/openapi"
)

// ReadImport returns the import that a command of the operator makes: members are those of
// POST /v1/providers as JSON, and document is the file. It refuses what the endpoint refuses.
func ReadImport(members, document []byte) (openapi.ImportInput, error) {
	var b importBody
	if err := strictjson.Decode(members, &b, importOptions()); err != nil {
		return openapi.ImportInput{}, err
	}
	return b.input(document)
}

// ReportImport returns the JSON form of an import's report, as POST /v1/providers answers it. What
// a tenant has to do with the provider (enabled, connected) is false.
func ReportImport(p catalog.Provider) any { return reportProvider(p) }
