/* The version of all programs, as the build says it: project(VERSION) in CMakeLists.txt. */
#ifndef HOLDFAST_SHM_VERSION_H
#define HOLDFAST_SHM_VERSION_H

#define HOLDFAST_VERSION_TEXT2(number) #number
#define HOLDFAST_VERSION_TEXT(number)  HOLDFAST_VERSION_TEXT2(number)
#define HOLDFAST_VERSION               HOLDFAST_VERSION_TEXT(HOLDFAST_VERSION_NUMBER)

#endif
