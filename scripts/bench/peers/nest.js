// A peer: NestJS on Express with its ValidationPipe; the decorators are applied by hand, as TypeScript would do.
import 'reflect-metadata';
import {
  Body,
  Controller,
  Delete,
  Get,
  HttpCode,
  HttpException,
  Module,
  Param,
  ParseIntPipe,
  Post,
  Query,
  Req,
  UnauthorizedException,
  UseGuards,
  ValidationPipe,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Type } from 'class-transformer';
import { IsInt, IsOptional, IsString, Min } from 'class-validator';
import { openStore } from './store.js';

const store = openStore();

class NewPlant {}
IsInt()(NewPlant.prototype, 'id');
IsString()(NewPlant.prototype, 'name');
IsOptional()(NewPlant.prototype, 'tag');
IsString()(NewPlant.prototype, 'tag');

class ListQuery {}
IsOptional()(ListQuery.prototype, 'limit');
Type(() => Number)(ListQuery.prototype, 'limit');
IsInt()(ListQuery.prototype, 'limit');
Min(1)(ListQuery.prototype, 'limit');

class TokenGuard {
  canActivate(context) {
    const request = context.switchToHttp().getRequest();
    request.subject = store.subjectOf(request.headers.authorization?.slice(7));
    if (request.subject === undefined) throw new UnauthorizedException();
    return true;
  }
}

class PlantsController {
  create({ subject }, { id, name, tag }) {
    if (!store.create(subject, { id, name, tag })) {
      throw new HttpException({ error: 40010, message: 'taken' }, 400);
    }
    return { name, tag };
  }

  list({ subject }, { limit }) {
    return store.list(subject, limit);
  }

  delete({ subject }, id) {
    if (!store.delete(subject, id)) throw new HttpException({ error: 40400, message: 'not found' }, 404);
  }
}

/** @param {string} name @param {Function[]} decorators @param {Function[]} parameters @param {Function[]} types */
function decorate(name, decorators, parameters, types) {
  const { prototype } = PlantsController;
  parameters.forEach((decorator, i) => decorator(prototype, name, i));
  Reflect.defineMetadata('design:paramtypes', types, prototype, name);
  for (const decorator of decorators) {
    decorator(prototype, name, Object.getOwnPropertyDescriptor(prototype, name));
  }
}
decorate('create', [Post(), HttpCode(200)], [Req(), Body()], [Object, NewPlant]);
decorate('list', [Get()], [Req(), Query()], [Object, ListQuery]);
decorate('delete', [Delete(':id'), HttpCode(204)], [Req(), Param('id', ParseIntPipe)], [Object, Number]);
UseGuards(TokenGuard)(PlantsController);
Controller('plants')(PlantsController);

class AppModule {}
Module({ controllers: [PlantsController] })(AppModule);

const app = await NestFactory.create(AppModule, { logger: false });
app.useGlobalPipes(new ValidationPipe({ whitelist: true, forbidNonWhitelisted: true, transform: true }));
await app.listen(Number(process.env.PORT), process.env.HOST);
