package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Where settings come from besides the command line.
const (
	defaultConfigFile = "/etc/trueup/config.yaml"
	envPrefix         = "TRUEUP"
)

// settings gives each flag that is not on the command line its value from the environment, or else from the file.
type settings struct {
	flags   *pflag.FlagSet
	file    string // empty where there is none
	viper   *viper.Viper
	origins map[string]string // where the value of each setting comes from, unless it is the default
}

// loadSettings fills in the flags that the command line does not set. file is the configuration file; when it is empty,
// the default one is read if it exists. Errors name the setting and where its value came from.
func loadSettings(flags *pflag.FlagSet, file string) (*settings, error) {
	s := &settings{flags: flags, file: file, viper: viper.New(), origins: make(map[string]string)}
	s.viper.SetEnvPrefix(envPrefix)
	s.viper.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	s.viper.AutomaticEnv()
	s.viper.AllowEmptyEnv(true)
	if err := s.readFile(); err != nil {
		return nil, err
	}
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) { errs = append(errs, s.fill(f)) })
	return s, errors.Join(errs...)
}

// fill sets one flag that is not on the command line.
func (s *settings) fill(f *pflag.Flag) error {
	switch {
	case isNoSetting(f.Name):
		return nil
	case f.Changed:
		s.origins[f.Name] = "--" + f.Name
		return nil
	case !s.viper.IsSet(f.Name):
		return nil
	}
	origin := s.place(f.Name)
	env := envPrefix + "_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
	if _, ok := os.LookupEnv(env); ok {
		origin = "$" + env
	}
	s.origins[f.Name] = origin
	value := s.viper.Get(f.Name)
	switch value.(type) {
	case []any, map[string]any:
		list, ok := f.Value.(interface{ setValue(any) error })
		if !ok {
			return s.located(fmt.Errorf("%s: must be a single value", f.Name))
		}
		if err := list.setValue(value); err != nil {
			return s.located(fmt.Errorf("%s: %w", f.Name, err))
		}
		return nil
	}
	if err := s.flags.Set(f.Name, fmt.Sprint(value)); err != nil {
		return s.located(fmt.Errorf("%s: %w", f.Name, valueError(err)))
	}
	return nil
}

// located adds to errors that begin with the key of a setting where its value comes from.
func (s *settings) located(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, s.located(e))
		}
		return errors.Join(errs...)
	}
	if err == nil {
		return nil
	}
	key := err.Error()
	if end := strings.IndexAny(key, ":["); end >= 0 {
		key = key[:end]
	}
	if s.flags.Lookup(key) == nil {
		return err
	}
	return fmt.Errorf("%w (from %s)", err, cmp.Or(s.origins[key], "its default"))
}

// isNoSetting reports whether a flag is about the command line itself.
func isNoSetting(flag string) bool { return flag == "help" || flag == "config" }

// valueError strips an error of pflag of the flag's name, which the setting's takes the place of, and of Go's words.
func valueError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	cause := invalid.Unwrap()
	if invalid.GetFlag().Value.Type() == "int" {
		cause = errors.New("must be a whole number")
	}
	if invalid.GetFlag().Value.Type() == "bool" {
		cause = errors.New("must be true or false")
	}
	return fmt.Errorf("%q: %w", invalid.GetValue(), cause)
}

func (s *settings) readFile() error {
	if s.file == "" {
		if _, err := os.Stat(defaultConfigFile); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		s.file = defaultConfigFile
	}
	s.viper.SetConfigFile(s.file)
	s.viper.SetConfigType("yaml")
	if err := s.viper.ReadInConfig(); err != nil {
		return fmt.Errorf("reading the configuration file %s: %w", s.file, err)
	}
	known := make(map[string]bool)
	s.flags.VisitAll(func(f *pflag.Flag) { known[f.Name] = !isNoSetting(f.Name) })
	var errs []error
	for _, key := range s.viper.AllKeys() {
		if !known[key] {
			errs = append(errs, fmt.Errorf("%s: there is no such setting%s (from %s)", key, didYouMean(key, slices.Sorted(maps.Keys(known))), s.place(key)))
		}
	}
	return errors.Join(errs...)
}

// place returns the file and the line of a key at the top of the configuration file.
func (s *settings) place(key string) string {
	data, err := os.ReadFile(s.file)
	if err != nil {
		return s.file
	}
	top, _, _ := strings.Cut(key, ".")
	for i, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(strings.ToLower(line), top+":") {
			return s.file + ":" + strconv.Itoa(i+1)
		}
	}
	return s.file
}
