package sync

import (
	"context"
	"errors"
	"fmt"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// login is how to log in to a source's repository.
type login struct {
	auth     source.Auth
	own      bool  // from the Secret that the source names
	noOthers error // why credential templates cannot be used, where they are asked for
}

// explain adds to an error of a server why it was given no credentials.
func (l login) explain(err error) error {
	if l.noOthers != nil && errors.Is(err, source.ErrAuthentication) {
		return fmt.Errorf("%w (credential templates cannot be used: %w)", err, l.noOthers)
	}
	return err
}

// login returns how to log in to the repository of a source: with the Secret that it names, or what its URL has, or the
// credential template for it.
func (r *reader) login(ctx context.Context, namespace string, src v1alpha1.Source) (login, error) {
	if src.SecretRef == nil {
		return r.templateLogin(ctx, repositoryURL(src))
	}
	const what = "the repository's credentials"
	data, err := r.secret(ctx, namespace, src.SecretRef.Name, what)
	if err != nil {
		return login{}, err
	}
	auth, err := source.AuthFromSecret(data)
	if err != nil {
		return login{}, fmt.Errorf("reading %s from Secret %s/%s: %w", what, namespace, src.SecretRef.Name, err)
	}
	return login{auth: auth, own: true}, nil
}

func (r *reader) templateLogin(ctx context.Context, url string) (login, error) {
	if source.HasPassword(url) {
		return login{}, nil
	}
	templates, err := r.templates(ctx)
	if err != nil {
		// Most repositories that name no Secret need none.
		return login{noOthers: err}, ctx.Err()
	}
	t, _, err := templates.For(url)
	if err != nil {
		return login{}, fmt.Errorf("choosing a credential template: %w", err)
	}
	return login{auth: t.Auth}, nil
}

// secret returns the data of a Secret; what says for an error what it is read for.
func (r *reader) secret(ctx context.Context, namespace, name, what string) (map[string][]byte, error) {
	secret, err := r.clients.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s from Secret %s/%s: %w", what, namespace, name, err)
	}
	return secret.Data, nil
}

func wantsSubmodules(src v1alpha1.Source) bool {
	return src.Chart == "" && (src.Submodules == nil || *src.Submodules)
}

// submoduleAuth decides about the submodules of a source. Whoever can push to the repository chooses their URLs: so the
// agent talks only to the server of the repository itself, to those that it has credentials for, and to those that its
// settings allow. The credentials of the source's own Secret are for its server only.
func (r *reader) submoduleAuth(src v1alpha1.Source, parent login) source.SubmoduleAuth {
	return func(ctx context.Context, url string) (source.Auth, error) {
		found, err := r.templateLogin(ctx, url)
		switch {
		case err != nil:
			return source.Auth{}, err
		case !found.auth.IsZero():
			return found.auth, nil
		case parent.own && source.SameServer(src.RepoURL, url):
			return parent.auth, nil
		case source.Host(url) == source.Host(src.RepoURL) || r.allowsHost(source.Host(url)):
			return source.Auth{}, nil
		}
		return source.Auth{}, fmt.Errorf("%s is on another server than the repository: allow it in the agent's setting submodule-hosts, give the agent credentials for it, or set submodules: false in the Application", source.RedactURL(url))
	}
}

// remoteAuth returns the credentials for what a kustomization names by URL: those of a template, never those of the
// source's own Secret.
func (r *reader) remoteAuth(ctx context.Context, url string) (source.Auth, error) {
	found, err := r.templateLogin(ctx, url)
	return found.auth, err
}

func (r *reader) allowsHost(host string) bool {
	for _, pattern := range r.submoduleHosts {
		if ok, err := path.Match(pattern, host); ok && err == nil {
			return true
		}
	}
	return false
}

// templateSelector selects the Secrets that are credential templates.
const templateSelector = v1alpha1.LabelSecretType + "=" + v1alpha1.SecretTypeRepoCreds

// newTemplate reads a credential template. The error names the Secret.
func newTemplate(namespace, name string, data map[string][]byte) (source.Template, error) {
	what := fmt.Sprintf("Secret %s/%s", namespace, name)
	if len(data["url"]) == 0 {
		return source.Template{}, fmt.Errorf("reading the credential template %s: it has no key url: set it to the beginning of the URLs that it is for", what)
	}
	auth, err := source.AuthFromSecret(data)
	if err != nil {
		err = fmt.Errorf("reading the credential template %s: %w", what, err)
	}
	t, urlErr := source.NewTemplate(what, string(data["url"]), auth)
	if urlErr != nil {
		return source.Template{}, fmt.Errorf("reading the credential template %s: its key url: %w", what, urlErr)
	}
	t.Err = err
	return t, nil
}

// readTemplates returns the credential templates of a namespace as whoever asks may read them: none where they may not.
func readTemplates(ctx context.Context, clients *Clients, namespace string) (source.Templates, error) {
	list, err := clients.Kube.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: templateSelector})
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("listing the Secrets of namespace %s: %w", namespace, err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading credential templates: %w", err)
	}
	var templates source.Templates
	for _, s := range list.Items {
		if t, err := newTemplate(namespace, s.Name, s.Data); err == nil {
			templates = append(templates, t)
		}
	}
	return templates, nil
}
