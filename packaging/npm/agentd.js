#!/usr/bin/env node
'use strict'

// Starts the program of this platform, which npm installed next to this package.

const { spawn } = require('node:child_process')
const { constants } = require('node:os')

const platform = `${process.platform}-${process.arch}`
const SCOPE = '@agentd-embed'
const PLATFORMS = ['linux-x64', 'linux-arm64']

/** The path of the program, for glibc or for musl; ends with a message where there is neither. */
function find() {
  for (const library of ['', '-musl']) {
    try {
      return require.resolve(`${SCOPE}/${platform}${library}/bin/agentd`)
    } catch {
      // npm installs the one that fits.
    }
  }
  const known = PLATFORMS.includes(platform)
  const why = known
    ? `the package ${SCOPE}/${platform} (with musl: ${SCOPE}/${platform}-musl) is not installed next to ` +
      `${SCOPE}/agentd. npm leaves it out with \`--omit=optional\`, and where there is no such package for this ` +
      `version. Install ${SCOPE}/agentd again without that option`
    : `there is no program for ${platform}; there is one for ${PLATFORMS.join(' and ')}`
  console.error(`agentd: ${why}.`)
  process.exit(1)
}

/** Passes signals on, so that whoever ends the launcher ends the program. */
function passSignals(child) {
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGINT']) {
    process.on(signal, () => {
      // A terminal sends this one to the program, too, and a second one would mean more than the first.
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal)
    })
  }
}

const program = find()
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit', argv0: 'agentd' })
passSignals(child)
child.on('error', (error) => {
  console.error(`agentd: cannot start ${program}: ${error.message}`)
  process.exit(1)
})
child.on('exit', (code, signal) => {
  process.exit(signal === null ? code : 128 + constants.signals[signal])
})
