package api

import (
	"context"
	"fmt"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/vault"
)

// Limits on what an import says of servers.
const (
	maxServerChoices   = 50
	maxServerVariables = 50
)

// importServers says where the calls of the document's servers go.
type importServers struct {
	Servers   []importServer    `json:"servers"`
	Variables map[string]string `json:"server_variables"`
}

type importServer struct {
	URL     *string `json:"url"`
	BaseURL *string `json:"base_url"`
}

// where checks the form; nil stays nil.
func (b importServers) where(v *wire.Validation) ([]verb.ServerChoice, map[string]string) {
	if len(b.Servers) > maxServerChoices {
		v.Add("/servers", "maxItems", fmt.Sprintf("servers has at most %d entries.", maxServerChoices))
		return nil, nil
	}
	if len(b.Variables) > maxServerVariables {
		v.Add("/server_variables", "maxProperties", fmt.Sprintf("server_variables has at most %d entries.", maxServerVariables))
		return nil, nil
	}
	var choices []verb.ServerChoice
	if b.Servers != nil {
		choices = make([]verb.ServerChoice, len(b.Servers))
	}
	for i, s := range b.Servers {
		at := fmt.Sprintf("/servers/%d", i)
		choices[i] = verb.ServerChoice{URL: v.Text(at+"/url", s.URL, 2048), BaseURL: v.Text(at+"/base_url", s.BaseURL, 2048)}
	}
	for name, value := range b.Variables {
		at := "/server_variables/" + fault.PointerToken(name)
		v.OptionalText(at, &name, 1, 255)
		v.OptionalText(at, &value, 1, 255)
	}
	return choices, b.Variables
}

// importedView is the answer to an import, and to a change that imports the document again.
type importedView struct {
	providerReport
	// Credentials are those that may not go to all servers of the provider's verbs.
	Credentials []credentialToOpen `json:"credentials"`
}

// viewImported returns the answer to an import of the provider.
func (h *providerHandlers) viewImported(ctx context.Context, c *wire.Call, p catalog.Provider) (importedView, error) {
	missing, err := h.importer.Unreached(ctx, c.Actor.TenantID, p)
	return importedView{providerReport: reportProvider(p), Credentials: viewUnreached(missing)}, err
}

func viewUnreached(list []vault.Unreached) []credentialToOpen {
	views := make([]credentialToOpen, len(list))
	for i, c := range list {
		views[i] = credentialToOpen{ID: c.ID, Label: c.Label, Origins: c.Origins}
		if c.CustomerID != "" {
			views[i].CustomerID = &c.CustomerID
		}
	}
	return views
}
