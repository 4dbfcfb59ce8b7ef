#!/usr/bin/env node
// npm links only a command whose file is there when it installs a workspace; dist/ is built later.
import '../dist/cli/command.js';
