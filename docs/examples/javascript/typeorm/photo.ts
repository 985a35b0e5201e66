import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity({ schema: 'insta5', name: 'photos' })
export class Photo {
  // Not PrimaryGeneratedColumn: that would be a sequence or an identity column of its own.
  @PrimaryColumn({ type: 'bigint', default: () => 'insta5.next_id()' })
  id!: string;

  @Column({ type: 'text' })
  title!: string;
}
