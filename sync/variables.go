package sync

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// variables are what a render depends on besides the repositories: what spec.source.postBuild replaces, and the keys of
// spec.source.decryption.
type variables struct {
	of       []source.Substitute      // of each source
	keys     []*source.DecryptionKeys // of each source; nil where nothing is to be decrypted
	versions string                   // of the ConfigMaps and Secrets that they are from; it has no values
}

// variables reads those of all sources. A ConfigMap or Secret takes one request.
func (r *reader) variables(ctx context.Context, app *v1alpha1.Application) (variables, error) {
	var out variables
	sources, names := app.Spec.AllSources()
	for i, src := range sources {
		var sub source.Substitute
		if src.PostBuild != nil {
			var versions []string
			var err error
			if sub, versions, err = r.substitute(ctx, app.Namespace, src.PostBuild); err != nil {
				return out, (&picked{name: names[i]}).named(err)
			}
			if len(versions) > 0 {
				out.versions += fmt.Sprintf("%d %s\n", i, strings.Join(versions, " "))
			}
		}
		out.of = append(out.of, sub)
		keys, err := r.decryptionKeys(ctx, app.Namespace, src.Decryption)
		if err != nil {
			return out, (&picked{name: names[i]}).named(err)
		}
		if keys != nil {
			out.versions += fmt.Sprintf("%d decryption %s\n", i, keys.ID())
		}
		out.keys = append(out.keys, keys)
	}
	return out, nil
}

func (r *reader) substitute(ctx context.Context, namespace string, p *v1alpha1.PostBuild) (source.Substitute, []string, error) {
	sub := source.Substitute{Variables: map[string]string{}, Secret: map[string]bool{}, Strict: true}
	var versions []string
	for _, ref := range p.SubstituteFrom {
		data, version, err := r.variablesFrom(ctx, namespace, ref)
		switch {
		case apierrors.IsNotFound(err) && ref.Optional:
			versions = append(versions, ref.Kind+"/"+ref.Name+"/none")
			continue
		case apierrors.IsNotFound(err):
			return sub, nil, fmt.Errorf("reading variables from %s %s/%s: it is not there: make it, or set optional: true in substituteFrom", ref.Kind, namespace, ref.Name)
		case err != nil:
			return sub, nil, fmt.Errorf("reading variables from %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
		}
		versions = append(versions, version)
		for name, value := range data {
			if !source.IsVariableName(name) {
				return sub, nil, fmt.Errorf("reading variables from %s %s/%s: its key %s is no name of a variable: those have letters, digits and _ only, and do not begin with a digit", ref.Kind, namespace, ref.Name, name)
			}
			sub.Variables[name] = oneLine(value)
			sub.Secret[name] = ref.Kind == "Secret"
		}
	}
	for name, value := range p.Substitute {
		sub.Variables[name] = oneLine(value)
		sub.Secret[name] = false
	}
	for name, secret := range sub.Secret {
		if !secret {
			delete(sub.Secret, name)
		}
	}
	return sub, versions, nil
}

// oneLine takes line breaks out of a value, as Flux does.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "") }

// variablesFrom returns the data of a ConfigMap or Secret, and which version of it that is.
func (r *reader) variablesFrom(ctx context.Context, namespace string, ref v1alpha1.SubstituteReference) (data map[string]string, version string, err error) {
	identify := func(m *metav1.ObjectMeta) string {
		return fmt.Sprintf("%s/%s/%s/%s", ref.Kind, ref.Name, m.UID, m.ResourceVersion)
	}
	if ref.Kind == "ConfigMap" {
		configMap, err := r.clients.Kube.CoreV1().ConfigMaps(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, "", err
		}
		return configMap.Data, identify(&configMap.ObjectMeta), nil
	}
	secret, err := r.clients.Kube.CoreV1().Secrets(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, "", err
	}
	data = map[string]string{}
	for k, v := range secret.Data {
		data[k] = string(v)
	}
	return data, identify(&secret.ObjectMeta), nil
}

// decryptionKeys reads the keys that open encrypted files; nil where a source has none.
func (r *reader) decryptionKeys(ctx context.Context, namespace string, d *v1alpha1.Decryption) (*source.DecryptionKeys, error) {
	if d == nil {
		return nil, nil
	}
	const what = "the keys of spec.source.decryption"
	data, err := r.secret(ctx, namespace, d.SecretRef.Name, what)
	if err != nil {
		return nil, err
	}
	keys, err := source.DecryptionKeysFromSecret(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s from Secret %s/%s: %w", what, namespace, d.SecretRef.Name, err)
	}
	return keys, nil
}
