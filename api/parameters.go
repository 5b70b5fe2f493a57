package api

import (
	"encoding/json"
	"fmt"
	"strings"
)

// documentedParameters returns the names of the query parameters that the OpenAPI document lists
// for each operation, by "METHOD /path". So the document is the one table of them, and a
// parameter that it does not list is refused.
func documentedParameters(document []byte) (map[string][]string, error) {
	type parameter struct {
		In, Name string
		Ref      string `json:"$ref"`
	}
	type operation struct{ Parameters []parameter }
	var doc struct {
		Paths map[string]struct {
			Get, Put, Post, Patch, Delete *operation
		}
		Components struct{ Parameters map[string]parameter }
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("api: the OpenAPI document: %w", err)
	}
	known := map[string][]string{}
	for route, item := range doc.Paths {
		for method, op := range map[string]*operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "PATCH": item.Patch, "DELETE": item.Delete} {
			if op == nil {
				continue
			}
			id := method + " " + route
			for _, p := range op.Parameters {
				if name, shared := strings.CutPrefix(p.Ref, "#/components/parameters/"); shared {
					p = doc.Components.Parameters[name]
				}
				if p.In == "query" {
					known[id] = append(known[id], p.Name)
				}
			}
		}
	}
	return known, nil
}
