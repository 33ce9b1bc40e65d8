package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"

	"github.com/trueup/trueup/diff"
)

// findObject returns which of ids [NAMESPACE/]KIND/NAME means. The error says what to type instead.
func (cl *cluster) findObject(ids []diff.ID, arg string) (int, error) {
	parts := strings.Split(arg, "/")
	if len(parts) != 2 && len(parts) != 3 {
		return 0, fmt.Errorf("say KIND/NAME or NAMESPACE/KIND/NAME, not %q", arg)
	}
	namespace, word, name := strings.Join(parts[:len(parts)-2], ""), parts[len(parts)-2], parts[len(parts)-1]
	kind := cl.kindCalled(word)
	found := 0
	var choices, near []string
	for i, id := range ids {
		switch {
		case !strings.EqualFold(id.Kind, kind.Kind) || kind.Group != "" && id.Group != kind.Group || namespace != "" && id.Namespace != namespace:
		case id.Name == name:
			found, choices = i, append(choices, strings.TrimPrefix(id.Namespace+"/"+word+"/"+name, "/"))
		default:
			near = append(near, word+"/"+id.Name)
		}
	}
	switch len(choices) {
	case 0:
		return 0, fmt.Errorf("the Application has no %s%s", arg, didYouMean(arg, near))
	case 1:
		return found, nil
	}
	return 0, fmt.Errorf("there are several %s: say %s", arg, orList(choices))
}

// kindCalled returns the kind that a person means, as kubectl understands it: deploy, deployments.apps, Deployment.
func (cl *cluster) kindCalled(word string) schema.GroupKind {
	mapper := restmapper.NewShortcutExpander(cl.mapper, cl.Kube.Discovery(), nil)
	resource := schema.ParseGroupResource(strings.ToLower(word))
	if gvk, err := mapper.KindFor(resource.WithVersion("")); err == nil {
		return gvk.GroupKind()
	}
	return schema.GroupKind{Kind: word, Group: resource.Group}
}
