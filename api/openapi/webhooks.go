package main

import (
	"gopkg.in/yaml.v3"

	"agentruntime/internal/record/event"
)

// withWebhooks adds what the service sends, before the components: one webhook for each type of
// event, made of the table of types.
func withWebhooks(root *yaml.Node, types []event.Spec) (*yaml.Node, error) {
	hooks := map[string]any{}
	for _, t := range types {
		var schema, example yaml.Node
		// JSON is YAML.
		if err := yaml.Unmarshal(t.Schema(), &schema); err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(t.Example(), &example); err != nil {
			return nil, err
		}
		media := map[string]any{"schema": plain(schema.Content[0]), "examples": map[string]any{"event": map[string]any{"value": plain(example.Content[0])}}}
		hooks[string(t.Type)] = map[string]any{"post": map[string]any{
			"summary": string(t.Type), "description": t.When,
			"requestBody": map[string]any{"required": true, "content": map[string]any{"application/json": media}},
			"responses":   map[string]any{"2XX": map[string]any{"description": "Delivered. Any other answer is tried again."}},
		}}
	}
	var value yaml.Node
	if err := value.Encode(hooks); err != nil {
		return nil, err
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Value: "webhooks"}
	out := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i].Value == "components" {
			out.Content = append(out.Content, key, &value)
		}
		out.Content = append(out.Content, root.Content[i], root.Content[i+1])
	}
	return out, nil
}

// plain returns the node in the style of the other parts, not in that of JSON.
func plain(n *yaml.Node) *yaml.Node {
	n.Style = 0
	for _, inner := range n.Content {
		plain(inner)
	}
	return n
}
