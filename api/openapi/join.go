package main

import (
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// join adds the parts to the part "root", in the order of its tags. It fails unless
// every tag has its part and every part its tag, every operation of a part has the tag
// of that part, no name is given twice, and every reference stays within a part or leads
// to the root. What two parts use therefore belongs to the root.
func join(parts map[string]*yaml.Node) (*yaml.Node, error) {
	root, ok := parts["root"]
	if !ok {
		return nil, errors.New("root.yaml is missing")
	}
	shared := components(root)
	if err := checkReferences("root", root, shared); err != nil {
		return nil, err
	}
	paths := &yaml.Node{Kind: yaml.MappingNode}
	joined := 1 // the root
	for _, tag := range tags(root) {
		name := fileOf(tag)
		part, ok := parts[name]
		if !ok {
			return nil, fmt.Errorf("tag %s: %s.yaml is missing", tag, name)
		}
		if err := check(name, tag, part, shared); err != nil {
			return nil, err
		}
		if err := add(paths, get(part, "paths")); err != nil {
			return nil, fmt.Errorf("%s.yaml: %w", name, err)
		}
		if err := addComponents(root, get(part, "components")); err != nil {
			return nil, fmt.Errorf("%s.yaml: %w", name, err)
		}
		joined++
	}
	if joined != len(parts) {
		return nil, fmt.Errorf("%d files for %d tags: a file is named like its tag", len(parts)-1, joined-1)
	}
	addLimits(root, paths)
	return withPaths(root, paths), nil
}

// fileOf returns the name of the part for a tag: "API keys" is in api_keys.yaml.
func fileOf(tag string) string { return strings.ToLower(strings.ReplaceAll(tag, " ", "_")) }

// tags returns the tags of the root, in order.
func tags(root *yaml.Node) []string {
	list := get(root, "tags")
	if list == nil {
		return nil
	}
	var names []string
	for _, tag := range list.Content {
		if name := get(tag, "name"); name != nil {
			names = append(names, name.Value)
		}
	}
	return names
}

// check looks at one part: its members, the tag of its operations, its references.
func check(name, tag string, part *yaml.Node, shared map[string]bool) error {
	for i := 0; i < len(part.Content); i += 2 {
		if member := part.Content[i].Value; member != "paths" && member != "components" {
			return fmt.Errorf("%s.yaml: a part has paths and components, not %s", name, member)
		}
	}
	paths := get(part, "paths")
	if paths == nil {
		return fmt.Errorf("%s.yaml has no paths", name)
	}
	for i := 0; i < len(paths.Content); i += 2 {
		item := paths.Content[i+1]
		for k := 0; k < len(item.Content); k += 2 {
			list := get(item.Content[k+1], "tags")
			if list == nil || item.Content[k].Value == "parameters" {
				continue
			}
			if len(list.Content) != 1 || list.Content[0].Value != tag {
				return fmt.Errorf("%s.yaml: line %d: an operation here has the tag %s", name, list.Line, tag)
			}
		}
	}
	reachable := components(part)
	for name := range shared {
		reachable[name] = true
	}
	return checkReferences(name, part, reachable)
}

// components returns the references by which the components of a part are named.
func components(part *yaml.Node) map[string]bool {
	known := map[string]bool{}
	sections := get(part, "components")
	if sections == nil {
		return known
	}
	for i := 0; i < len(sections.Content); i += 2 {
		section := sections.Content[i+1]
		for k := 0; k < len(section.Content); k += 2 {
			known["#/components/"+sections.Content[i].Value+"/"+section.Content[k].Value] = true
		}
	}
	return known
}

func checkReferences(name string, n *yaml.Node, known map[string]bool) error {
	if ref := get(n, "$ref"); ref != nil && !known[ref.Value] {
		return fmt.Errorf("%s.yaml: line %d: %s is neither here nor in root.yaml", name, ref.Line, ref.Value)
	}
	for _, inner := range n.Content {
		if err := checkReferences(name, inner, known); err != nil {
			return err
		}
	}
	return nil
}

// addComponents adds each section of components, such as schemas, to that of the root.
func addComponents(root, from *yaml.Node) error {
	if from == nil {
		return nil
	}
	to := get(root, "components")
	for i := 0; i < len(from.Content); i += 2 {
		section := get(to, from.Content[i].Value)
		if section == nil {
			section = &yaml.Node{Kind: yaml.MappingNode}
			to.Content = append(to.Content, from.Content[i], section)
		}
		if err := add(section, from.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// add appends the members of one mapping to another.
func add(to, from *yaml.Node) error {
	for i := 0; i < len(from.Content); i += 2 {
		if get(to, from.Content[i].Value) != nil {
			return fmt.Errorf("line %d: %s exists already", from.Content[i].Line, from.Content[i].Value)
		}
		to.Content = append(to.Content, from.Content[i], from.Content[i+1])
	}
	return nil
}

// withPaths puts the paths before the components, where readers expect them.
func withPaths(root, paths *yaml.Node) *yaml.Node {
	key := &yaml.Node{Kind: yaml.ScalarNode, Value: "paths"}
	out := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i].Value == "components" {
			out.Content = append(out.Content, key, paths)
		}
		out.Content = append(out.Content, root.Content[i], root.Content[i+1])
	}
	return out
}

// get returns the value of a member; nil where n is no mapping or lacks it.
func get(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}
